//! Which content of a file each conversation has read: a file that changed since is not edited.

use std::path::PathBuf;
use std::sync::Mutex;

use indexmap::IndexMap;
use switchboard::CallerId;
use switchboard::sync::lock;

/// How many files are remembered; the oldest are forgotten, and must be read again.
const MAX_FILES: usize = 4096;

/// The last content of each file that a conversation knows, as a hash.
#[derive(Debug, Default)]
pub(super) struct ReadRecord(Mutex<IndexMap<(CallerId, PathBuf), blake3::Hash>>);

impl ReadRecord {
    /// The conversation knows this content.
    pub(super) fn add(&self, caller: CallerId, path: PathBuf, content: blake3::Hash) {
        let mut known = lock(&self.0);
        let key = (caller, path);
        known.shift_remove(&key);
        if known.len() >= MAX_FILES {
            known.shift_remove_index(0);
        }
        known.insert(key, content);
    }

    /// The content of a file that the conversation knows.
    pub(super) fn get(&self, caller: CallerId, path: PathBuf) -> Option<blake3::Hash> {
        let known = lock(&self.0);
        known.get(&(caller, path)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_conversation_knows_what_it_read_itself() {
        let record = ReadRecord::default();
        let (one, other) = (CallerId::new("one"), CallerId::new("other"));
        let (path, hash) = (PathBuf::from("/w/a"), blake3::hash(b"1"));
        record.add(one.clone(), path.clone(), hash);
        assert_eq!(record.get(one.clone(), path.clone()), Some(hash));
        assert_eq!(record.get(other, path.clone()), None);
        assert_eq!(record.get(one.clone(), PathBuf::from("/w/b")), None);
        record.add(one.clone(), path.clone(), blake3::hash(b"2"));
        assert_eq!(record.get(one, path), Some(blake3::hash(b"2")));
    }

    #[test]
    fn the_record_is_bounded_and_forgets_the_oldest() {
        let record = ReadRecord::default();
        let caller = CallerId::new("one");
        for number in 0..=MAX_FILES {
            let path = PathBuf::from(number.to_string());
            record.add(caller.clone(), path, blake3::hash(b""));
        }
        assert_eq!(record.get(caller.clone(), PathBuf::from("0")), None);
        assert!(record.get(caller, PathBuf::from("1")).is_some());
    }
}
