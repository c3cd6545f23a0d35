//! The results compared with their limits (bars): medians, spread, ratios; as a table or as JSON.

use std::fmt::Write as _;

use serde::Serialize;

/// One run.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) command: &'static str,
    pub(crate) runtime: &'static str,
    pub(crate) era: &'static str,
    pub(crate) rounds: usize,
    pub(crate) rows: Vec<Row>,
    pub(crate) notes: Vec<String>,
}

/// One kind of work, done by each contestant.
#[derive(Serialize)]
pub(crate) struct Row {
    work: String,
    unit: Unit,
    cells: Vec<Cell>,
    bars: Vec<Bar>,
}

/// The unit of a row; values are in seconds, calls per second or bytes.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    Seconds,
    CallsPerSecond,
    Bytes,
}

/// The results of one contestant, in the order of the rounds, so that results of the same round can be
/// compared.
#[derive(Serialize)]
struct Cell {
    who: &'static str,
    median: f64,
    low: f64,
    high: f64,
    rounds: Vec<f64>,
}

/// A limit for a result.
#[derive(Serialize)]
struct Bar {
    text: String,
    /// The median over the rounds of the ratio within each round; or the figure itself. `None`:
    /// not measured.
    value: Option<f64>,
    met: Option<bool>,
}

#[derive(Clone, Copy)]
enum Relation {
    AtMost,
    AtLeast,
}

impl Row {
    pub(crate) fn new(work: impl Into<String>, unit: Unit) -> Self {
        Self {
            work: work.into(),
            unit,
            cells: Vec::new(),
            bars: Vec::new(),
        }
    }

    /// Adds a contestant, unless it has no rounds.
    pub(crate) fn cell(mut self, who: &'static str, rounds: Vec<f64>) -> Self {
        let mut sorted = rounds.clone();
        sorted.sort_by(f64::total_cmp);
        if let (Some(&low), Some(&high)) = (sorted.first(), sorted.last()) {
            self.cells.push(Cell {
                who,
                median: median(&sorted),
                low,
                high,
                rounds,
            });
        }
        self
    }

    /// `who` must be at most `limit` times `against`.
    pub(crate) fn at_most(self, who: &'static str, limit: f64, against: &'static str) -> Self {
        self.bar(who, Relation::AtMost, limit, Some(against))
    }

    /// `who` must be at least `limit` times `against`.
    pub(crate) fn at_least(self, who: &'static str, limit: f64, against: &'static str) -> Self {
        self.bar(who, Relation::AtLeast, limit, Some(against))
    }

    /// `who` must be at most `limit`, in the row's unit.
    pub(crate) fn below(self, who: &'static str, limit: f64) -> Self {
        self.bar(who, Relation::AtMost, limit, None)
    }

    fn bar(
        mut self,
        who: &'static str,
        relation: Relation,
        limit: f64,
        against: Option<&'static str>,
    ) -> Self {
        let sign = if matches!(relation, Relation::AtMost) {
            '≤'
        } else {
            '≥'
        };
        let (text, value) = match against {
            Some(against) => (
                format!("{who} {sign} {limit} × {against}"),
                self.ratio(who, against),
            ),
            None => (
                format!("{who} {sign} {}", self.unit.show(limit)),
                self.find(who).map(|cell| cell.median),
            ),
        };
        let met = value.map(|value| match relation {
            Relation::AtMost => value <= limit,
            Relation::AtLeast => value >= limit,
        });
        self.bars.push(Bar { text, value, met });
        self
    }

    fn find(&self, who: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.who == who)
    }

    /// The median of the ratios within each round, because both contestants of a round have the same
    /// load of the machine.
    fn ratio(&self, who: &str, against: &str) -> Option<f64> {
        let (this, that) = (self.find(who)?, self.find(against)?);
        let mut ratios: Vec<f64> = this
            .rounds
            .iter()
            .zip(&that.rounds)
            .map(|(this, that)| this / that)
            .collect();
        ratios.sort_by(f64::total_cmp);
        Some(median(&ratios))
    }
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Seconds if value < 1e-6 => format!("{:.0} ns", value * 1e9),
            Self::Seconds if value < 1e-3 => format!("{:.1} µs", value * 1e6),
            Self::Seconds => format!("{:.2} ms", value * 1e3),
            Self::CallsPerSecond => format!("{:.1}k/s", value / 1e3),
            Self::Bytes => format!("{:.1} MiB", value / (1024.0 * 1024.0)),
        }
    }
}

impl Report {
    /// The table for a person.
    pub(crate) fn table(&self) -> String {
        let Self {
            command,
            runtime,
            era,
            rounds,
            ..
        } = self;
        let mut text =
            format!("{command}: {rounds} interleaved rounds, {runtime} runtime, {era} era\n\n");
        // The contestant that does the minimum.
        let least = match *command {
            "gateway" => "pump",
            _ => "raw",
        };
        let _ = writeln!(
            text,
            "{:<44}{:<18}{:>12}  {:<24}{:>7}{:>8}",
            "work",
            "who",
            "median",
            "lowest to highest",
            format!("× {least}"),
            "× rmcp"
        );
        for row in &self.rows {
            if row.cells.is_empty() {
                let _ = writeln!(text, "{}", row.work);
            }
            for (index, cell) in row.cells.iter().enumerate() {
                let work = if index == 0 { row.work.as_str() } else { "" };
                let spread = format!(
                    "{} to {}",
                    row.unit.show(cell.low),
                    row.unit.show(cell.high)
                );
                let ratio = |against| match row.ratio(cell.who, against) {
                    Some(ratio) if against != cell.who => format!("{ratio:.2}"),
                    _ => String::new(),
                };
                let (median, rmcp) = (row.unit.show(cell.median), ratio("rmcp"));
                let least = ratio(least);
                let _ = writeln!(
                    text,
                    "{work:<44}{:<18}{median:>12}  {spread:<24}{least:>7}{rmcp:>8}",
                    cell.who
                );
            }
            for bar in &row.bars {
                let _ = writeln!(text, "    bar: {:<39}{}", bar.text, bar.verdict(row.unit));
            }
        }
        self.notes
            .iter()
            .for_each(|note| text.push_str(&format!("\n{note}")));
        text
    }

    /// The JSON document for a program.
    pub(crate) fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}

impl Bar {
    fn verdict(&self, unit: Unit) -> String {
        let Some((value, met)) = self.value.zip(self.met) else {
            return "not measured".to_owned();
        };
        let shown = if self.text.contains('×') {
            format!("{value:.2}")
        } else {
            unit.show(value)
        };
        format!("{shown}, {}", if met { "met" } else { "MISSED" })
    }
}

/// Of sorted values.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted {
        [] => f64::NAN,
        _ if sorted.len().is_multiple_of(2) => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_compares_rounds_that_met_the_same_load() {
        // The machine was three times slower in the second and fifth round for both contestants, so
        // the ratio stays 1.2.
        let row = Row::new("work", Unit::Seconds)
            .cell("raw", vec![10.0, 30.0, 10.0, 10.0, 30.0])
            .cell("us", vec![12.0, 36.0, 12.0, 12.0, 36.0])
            .at_most("us", 1.25, "raw")
            .at_least("us", 1.25, "raw")
            .at_most("us", 1.25, "rmcp")
            .below("us", 11.0);
        let verdicts: Vec<_> = row
            .bars
            .iter()
            .map(|bar| (bar.text.as_str(), bar.met))
            .collect();
        assert_eq!(
            verdicts,
            [
                ("us ≤ 1.25 × raw", Some(true)),
                ("us ≥ 1.25 × raw", Some(false)),
                ("us ≤ 1.25 × rmcp", None),
                ("us ≤ 11000.00 ms", Some(false)),
            ]
        );
    }
}
