//! A document of any format as a tree with the place of every key and value: what formats make and
//! dialects read.

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// Offset in the file's text, in bytes.
    pub(super) at: usize,
    pub(super) value: Tree,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    Text(String),
    /// In decimal digits, as far as they were a number at all.
    Number(String),
    Flag(bool),
    Null,
    List(Vec<Node>),
    /// In the order of the file. A format in which a key may stand twice (HCL's blocks) keeps both.
    Table(Vec<TableEntry>),
    /// What no field takes, such as a date: what it is, for people.
    Other(&'static str),
}

/// One key of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TableEntry {
    pub(super) key: String,
    /// Offset of the key.
    pub(super) at: usize,
    pub(super) value: Node,
}

impl Node {
    /// The value of a key, if this is a table that has it; the first one, where there are several.
    pub(super) fn get(&self, key: &str) -> Option<&TableEntry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The keys of a table, in the order of the file; none of anything else.
    pub(super) fn entries(&self) -> &[TableEntry] {
        if let Tree::Table(entries) = &self.value {
            entries
        } else {
            &[]
        }
    }

    /// A table without these keys, which are read apart.
    pub(super) fn without(&self, keys: &[&str]) -> Self {
        let mut node = self.clone();
        if let Tree::Table(entries) = &mut node.value {
            entries.retain(|entry| !keys.contains(&entry.key.as_str()));
        }
        node
    }

    /// A table in whose table `key` numbers and flags are texts, as programs take them that hand
    /// them to a child anyway; `null` says nothing.
    pub(super) fn with_plain_texts(mut self, key: &str) -> Self {
        let Tree::Table(entries) = &mut self.value else {
            return self;
        };
        let values = entries
            .iter_mut()
            .filter(|entry| entry.key == key)
            .filter_map(|entry| match &mut entry.value.value {
                Tree::Table(values) => Some(values),
                _ => None,
            });
        for values in values {
            values.retain(|value| value.value.value != Tree::Null);
            for value in values {
                match &value.value.value {
                    Tree::Number(number) => value.value.value = Tree::Text(number.clone()),
                    Tree::Flag(flag) => value.value.value = Tree::Text(flag.to_string()),
                    _ => {}
                }
            }
        }
        self
    }

    /// The text, if it is one.
    pub(super) fn text(&self) -> Option<&str> {
        if let Tree::Text(text) = &self.value {
            Some(text)
        } else {
            None
        }
    }

    /// What it is, without the value: that may be a secret.
    pub(super) fn kind(&self) -> &'static str {
        match &self.value {
            Tree::Text(_) => "a string",
            Tree::Number(digits) if digits.contains(['.', 'e', 'E', 'n', 'i']) => {
                "a decimal number"
            }
            Tree::Number(_) => "an integer",
            Tree::Flag(_) => "true or false without quotes",
            Tree::Null => "nothing",
            Tree::List(_) => "a list",
            Tree::Table(_) => "a table",
            Tree::Other(kind) => kind,
        }
    }
}
