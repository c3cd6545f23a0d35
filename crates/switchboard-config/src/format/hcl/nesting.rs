//! Bounds how deeply HCL is nested, before it is parsed: with operators between its brackets, the
//! parser takes several times as long for each level.

/// Deeper than any configuration; with it, no text takes the parser longer than a moment.
const MAX_DEPTH: usize = 16;

/// What surrounds a place in the text.
enum TextScope {
    /// A bracket, with the character that closes it.
    Bracket(u8),
    /// `${…}` or `%{…}` in a string or a heredoc.
    Template,
    String,
    /// A heredoc; its text ends there.
    Heredoc(usize),
}

/// Where the text is nested too deeply. Text that is not HCL may give any answer, but is scanned
/// in linear time.
pub(crate) fn too_deep_at(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut scopes: Vec<TextScope> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        if let Some(TextScope::Heredoc(end)) = scopes.last()
            && at >= *end
        {
            scopes.pop();
            continue;
        }
        at += match (scopes.last(), rest) {
            // The text of strings and heredocs.
            (Some(TextScope::String), [b'\\', _, ..]) => 2,
            (Some(TextScope::String), [b'"', ..]) => {
                scopes.pop();
                1
            }
            (
                Some(TextScope::String | TextScope::Heredoc(_)),
                [b'$', b'$', b'{', ..] | [b'%', b'%', b'{', ..],
            ) => 3,
            (Some(TextScope::String | TextScope::Heredoc(_)), [b'$' | b'%', b'{', ..]) => {
                scopes.push(TextScope::Template);
                2
            }
            (Some(TextScope::String | TextScope::Heredoc(_)), _) => 1,
            // Code.
            (_, [b'#', ..] | [b'/', b'/', ..]) => find(rest, b"\n"),
            (_, [b'/', b'*', ..]) => find(&rest[2..], b"*/") + 4,
            (_, [b'"', ..]) => {
                scopes.push(TextScope::String);
                1
            }
            (_, [b'<', b'<', ..]) => match heredoc(rest) {
                Some((start, end)) => {
                    scopes.push(TextScope::Heredoc(at + end));
                    start
                }
                None => 2,
            },
            (_, [open @ (b'(' | b'[' | b'{'), ..]) => {
                scopes.push(TextScope::Bracket(match open {
                    b'(' => b')',
                    b'[' => b']',
                    _ => b'}',
                }));
                1
            }
            (Some(TextScope::Bracket(close)), [byte, ..]) if byte == close => {
                scopes.pop();
                1
            }
            (Some(TextScope::Template), [b'}', ..]) => {
                scopes.pop();
                1
            }
            _ => 1,
        };
        if scopes.len() > MAX_DEPTH {
            return Some(at);
        }
    }
    None
}

/// The place of a word, or the end of the text.
fn find(text: &[u8], word: &[u8]) -> usize {
    let found = text.windows(word.len()).position(|part| part == word);
    found.unwrap_or(text.len())
}

/// Where the text of a heredoc begins and ends.
fn heredoc(text: &[u8]) -> Option<(usize, usize)> {
    let is_name =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte) || !byte.is_ascii();
    let head = text.strip_prefix(b"<<-").unwrap_or(&text[2..]);
    let (name, rest) = head.split_at(head.iter().take_while(|byte| is_name(byte)).count());
    let blanks = rest
        .iter()
        .take_while(|byte| b" \t\r".contains(byte))
        .count();
    if name.is_empty() || rest.get(blanks) != Some(&b'\n') {
        return None;
    }
    let start = text.len() - rest.len() + blanks + 1;
    let mut end = start;
    for line in text[start..].split_inclusive(|byte| *byte == b'\n') {
        if line.trim_ascii() == name {
            break;
        }
        end += line.len();
    }
    Some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_is_that_of_brackets_in_code() {
        let check = |text: &str, is_too_deep| {
            assert_eq!(too_deep_at(text).is_some(), is_too_deep, "{text}");
        };
        let repeated = |part: &str, count| part.repeat(count);
        check(&format!("a = {}", repeated("[", MAX_DEPTH)), false);
        check(&format!("a = {}", repeated("[", MAX_DEPTH + 1)), true);
        check(&repeated("a = [(1)]\n", 100), false);
        check(&repeated("a = \"[[((\"\n# [[[\n/* ((( */\n", 100), false);
        check(&repeated("a = <<-EOT\n\" [ ( { $${ \n  EOT\n", 100), false);
        check(&repeated("\"${[", MAX_DEPTH), true);
        check(&format!("a = <<EOT\n{}\nEOT\n", repeated("${ [", 10)), true);
        check(&repeated("1 /* */* (c[ ", MAX_DEPTH), true);
        let name = "E".repeat(1_000);
        let hidden = format!(
            "a = <<{name}\n\"\n{name}\nb = {}",
            repeated("(c[", MAX_DEPTH)
        );
        check(&hidden, true);
        // Closed only in a comment, a string, or after the end of a heredoc.
        check(&repeated("c[ /* ] */ 1 + \"]\" ", MAX_DEPTH + 1), true);
        check(
            &format!("a = <<E\n\"\nE\nb = {}", repeated("(c[", MAX_DEPTH)),
            true,
        );
    }
}
