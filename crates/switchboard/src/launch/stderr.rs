//! A server's stderr: the last 64 KiB in memory, all of it to a sink, drained for ever.

use std::sync::{Arc, Mutex};

use crate::untrusted::Untrusted;

/// How much is kept in memory for each server.
pub const TAIL_BYTES: usize = 64 * 1024;

/// The last of what a server wrote to stderr. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct StderrTail(Arc<Mutex<Vec<u8>>>);

impl StderrTail {
    /// Waits until everything that was written has been read.
    pub async fn drained(&self) {
        todo!()
    }

    /// The last `count` lines, oldest first.
    pub fn last_lines(&self, count: usize) -> Vec<Untrusted> {
        let _ = (&self.0, count);
        todo!()
    }
}
