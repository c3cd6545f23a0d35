//! The supported revisions of the protocol, and their two eras.

use std::fmt;

/// How connections of a revision work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// `initialize`, 2024-11-05 to 2025-11-25.
    Legacy,
    /// No handshake, 2026-07-28 and later.
    Modern,
}

impl Era {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Legacy => Self::Modern,
            Self::Modern => Self::Legacy,
        }
    }
}

/// One revision of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Revision {
    /// 2024-11-05.
    V2024_11_05,
    /// 2025-03-26.
    V2025_03_26,
    /// 2025-06-18.
    V2025_06_18,
    /// 2025-11-25.
    V2025_11_25,
    /// 2026-07-28.
    V2026_07_28,
}

impl Revision {
    /// The legacy revisions, newest first. `initialize` offers the first.
    pub const LEGACY: [Self; 4] = [
        Self::V2025_11_25,
        Self::V2025_06_18,
        Self::V2025_03_26,
        Self::V2024_11_05,
    ];

    /// The modern revisions, newest first. `server/discover` begins with the first.
    pub const MODERN: [Self; 1] = [Self::V2026_07_28];

    /// The newest revision of an era.
    pub fn newest(era: Era) -> Self {
        match era {
            Era::Legacy => Self::LEGACY[0],
            Era::Modern => Self::MODERN[0],
        }
    }

    /// The revision with this name, if it is supported.
    pub fn parse(name: &str) -> Option<Self> {
        Self::MODERN
            .into_iter()
            .chain(Self::LEGACY)
            .find(|revision| revision.as_str() == name)
    }

    /// The supported revision of this era with this name.
    pub fn parse_in(era: Era, name: &str) -> Option<Self> {
        Self::parse(name).filter(|revision| revision.era() == era)
    }

    /// The name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The era.
    pub fn era(self) -> Era {
        if self < Self::V2026_07_28 {
            Era::Legacy
        } else {
            Era::Modern
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_revision_is_parsed_from_its_name_and_listed_in_its_era() {
        for (era, revisions) in [
            (Era::Legacy, Revision::LEGACY.as_slice()),
            (Era::Modern, Revision::MODERN.as_slice()),
        ] {
            assert!(revisions.is_sorted_by(|newer, older| newer > older));
            for revision in revisions {
                assert_eq!(Revision::parse(revision.as_str()), Some(*revision));
                assert_eq!(revision.era(), era, "{revision}");
            }
        }
        assert_eq!(Revision::parse("2026-07-27"), None);
    }
}
