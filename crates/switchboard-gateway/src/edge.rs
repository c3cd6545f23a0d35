//! Where clients connect: the standard streams, and what else carries messages as lines.

pub mod lines;
pub mod stdio;
