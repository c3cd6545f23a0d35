//! Pins caller and server to chosen cores.
//!
//! Left alone, the scheduler at times puts caller and server on one core and at times on two, and a
//! round trip differs fourfold between the two: more than any contestant differs from another. So
//! `stdio` chooses, and says so.

use crate::measure::Fault;

/// Where the caller and the server run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pin {
    /// On two cores: what a machine with room does.
    Apart,
    /// On one core: every instruction of either side shows.
    Together,
    /// Wherever the scheduler likes.
    Nowhere,
}

impl Pin {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Apart => "caller and server on two cores",
            Self::Together => "caller and server on one core",
            Self::Nowhere => "caller and server on any core",
        }
    }

    /// Pins this process, the caller's side, and gives back what the server is to be told. The
    /// server pins itself, because the contestants start it in their own ways and it would
    /// inherit our core.
    pub(crate) fn apply(self) -> Result<Vec<String>, Fault> {
        let allowed = allowed_cores()?;
        let (Some(&first), Some(&last)) = (allowed.first(), allowed.last()) else {
            return Ok(Vec::new());
        };
        let server_core = match self {
            Self::Apart => last,
            Self::Together => first,
            Self::Nowhere => return Ok(Vec::new()),
        };
        to_core(first)?;
        Ok(vec!["--core".to_owned(), server_core.to_string()])
    }
}

/// Pins this process. Threads and children inherit it.
#[cfg(target_os = "linux")]
pub(crate) fn to_core(core: usize) -> Result<(), Fault> {
    let mut set = nix::sched::CpuSet::new();
    set.set(core)?;
    Ok(nix::sched::sched_setaffinity(
        nix::unistd::Pid::this(),
        &set,
    )?)
}

/// The core that this process was pinned to, or the first that it may use.
pub(crate) fn current() -> Result<usize, Fault> {
    Ok(allowed_cores()?.first().copied().unwrap_or(0))
}

#[cfg(target_os = "linux")]
fn allowed_cores() -> Result<Vec<usize>, Fault> {
    let set = nix::sched::sched_getaffinity(nix::unistd::Pid::this())?;
    Ok((0..nix::sched::CpuSet::count())
        .filter(|&core| set.is_set(core).unwrap_or(false))
        .collect())
}

/// Elsewhere there is no such call, and the scheduler does as it likes.
#[cfg(not(target_os = "linux"))]
pub(crate) fn to_core(_: usize) -> Result<(), Fault> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn allowed_cores() -> Result<Vec<usize>, Fault> {
    Ok(Vec::new())
}
