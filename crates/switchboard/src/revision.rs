//! The revisions of the protocol that we speak, and the two eras they fall into.

use std::fmt;

/// How a revision's connections work.
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
    /// The legacy ones, newest first. `initialize` offers the first.
    pub const LEGACY: [Self; 4] = [
        Self::V2025_11_25,
        Self::V2025_06_18,
        Self::V2025_03_26,
        Self::V2024_11_05,
    ];

    /// The modern ones, newest first. `server/discover` begins with the first.
    pub const MODERN: [Self; 1] = [Self::V2026_07_28];

    /// The newest of an era.
    pub fn newest(era: Era) -> Self {
        match era {
            Era::Legacy => Self::LEGACY[0],
            Era::Modern => Self::MODERN[0],
        }
    }

    /// The revision of this name, if we speak it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::MODERN
            .into_iter()
            .chain(Self::LEGACY)
            .find(|revision| revision.as_str() == name)
    }

    /// The revision of this name, if it is of this era and we speak it.
    pub fn parse_in(era: Era, name: &str) -> Option<Self> {
        Self::parse(name).filter(|revision| revision.era() == era)
    }

    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Its era.
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
    fn every_revision_is_found_by_its_name_and_stands_in_its_eras_list() {
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
