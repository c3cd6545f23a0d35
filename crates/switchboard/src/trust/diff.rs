//! What changed between two lists of lines: `-` then, `+` now, two spaces for what stayed.

/// More cells than this in the table, and the middle is shown as replaced whole.
const MAX_CELLS: usize = 1_000_000;

/// All lines of both, in order, each once.
pub(super) fn lines(then: &[String], now: &[String]) -> Vec<String> {
    let start = then
        .iter()
        .zip(now)
        .take_while(|(then, now)| then == now)
        .count();
    let end = then[start..]
        .iter()
        .rev()
        .zip(now[start..].iter().rev())
        .take_while(|(then, now)| then == now)
        .count();
    let (then_middle, now_middle) = (&then[start..then.len() - end], &now[start..now.len() - end]);

    let mut shown: Vec<String> = then[..start]
        .iter()
        .map(|line| format!("  {line}"))
        .collect();
    if then_middle.len().saturating_mul(now_middle.len()) > MAX_CELLS {
        shown.extend(then_middle.iter().map(|line| format!("- {line}")));
        shown.extend(now_middle.iter().map(|line| format!("+ {line}")));
    } else {
        middle(then_middle, now_middle, &mut shown);
    }
    shown.extend(
        then[then.len() - end..]
            .iter()
            .map(|line| format!("  {line}")),
    );
    shown
}

/// By the longest common subsequence.
fn middle(then: &[String], now: &[String], shown: &mut Vec<String>) {
    let width = now.len() + 1;
    let mut common = vec![0u32; (then.len() + 1) * width];
    for i in (0..then.len()).rev() {
        for j in (0..now.len()).rev() {
            common[i * width + j] = if then[i] == now[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < then.len() || j < now.len() {
        if i < then.len() && j < now.len() && then[i] == now[j] {
            shown.push(format!("  {}", now[j]));
            (i, j) = (i + 1, j + 1);
        } else if i < then.len()
            && (j == now.len() || common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            shown.push(format!("- {}", then[i]));
            i += 1;
        } else {
            shown.push(format!("+ {}", now[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(words: &str) -> Vec<String> {
        words.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn every_line_of_both_is_shown_once_and_in_order() {
        let check = |then: &str, now: &str, expected: &str| {
            assert_eq!(
                lines(&texts(then), &texts(now)).join("|"),
                expected,
                "{then} → {now}"
            );
        };
        check("", "", "");
        check("a b c", "a b c", "  a|  b|  c");
        check("a b c", "a x c", "  a|- b|+ x|  c");
        check("a b", "a b c", "  a|  b|+ c");
        check("a b c d", "b d a", "- a|  b|- c|  d|+ a");
        check("", "a", "+ a");
        check("a", "", "- a");
        check("a a", "a", "  a|- a");
    }

    #[test]
    fn a_huge_change_costs_little_and_hides_nothing() {
        let then: Vec<String> = (0..20_000).map(|number| format!("a{number}")).collect();
        let now: Vec<String> = (0..20_000).map(|number| format!("b{number}")).collect();
        let shown = lines(&then, &now);
        assert_eq!(shown.len(), 40_000);
        assert_eq!(
            (shown[0].as_str(), shown[39_999].as_str()),
            ("- a0", "+ b19999")
        );
    }
}
