//! A parsed document of any format, with the offset of every key and value.

/// A value and its position.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// Offset in the file's text, in bytes.
    pub(super) at: usize,
    pub(super) value: Tree,
}

/// A value of any format.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    Text(String),
    /// In decimal digits, if it could be parsed.
    Number(String),
    Flag(bool),
    Null,
    List(Vec<Node>),
    /// In the order of the file. A key may occur twice in a format that allows it (HCL blocks).
    Table(Vec<TableEntry>),
    /// A value that no field accepts, such as a date, by its description.
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
    /// The first entry with this key, if this is a table.
    pub(super) fn get(&self, key: &str) -> Option<&TableEntry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The entries of a table, in the order of the file; empty for any other value.
    pub(super) fn entries(&self) -> &[TableEntry] {
        if let Tree::Table(entries) = &self.value {
            entries
        } else {
            &[]
        }
    }

    /// A copy of a table without these keys.
    pub(super) fn without(&self, keys: &[&str]) -> Self {
        let mut node = self.clone();
        if let Tree::Table(entries) = &mut node.value {
            entries.retain(|entry| !keys.contains(&entry.key.as_str()));
        }
        node
    }

    /// Converts numbers and booleans in the sub-table `key` to strings, since a child process gets
    /// strings anyway; drops `null` entries.
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

    /// The string, if it is one.
    pub(super) fn text(&self) -> Option<&str> {
        if let Tree::Text(text) = &self.value {
            Some(text)
        } else {
            None
        }
    }

    /// The type of the value, for messages. The value itself may be a secret.
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
