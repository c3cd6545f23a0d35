//! Pins caller and server to chosen cores.
//!
//! Otherwise the scheduler puts caller and server sometimes on one core and sometimes on two, and
//! round trips differ fourfold between the two: more than contestants differ from each other.

use crate::measure::Fault;

/// Where the caller and the server run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pin {
    /// On two cores, as on an idle machine.
    Apart,
    /// On one core, where every instruction of either side counts.
    Together,
    /// Not pinned.
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

    /// Pins this process, the caller's side, and returns the server's flags. The server pins itself,
    /// because it would inherit our core otherwise.
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

/// Other systems have no such call.
#[cfg(not(target_os = "linux"))]
pub(crate) fn to_core(_: usize) -> Result<(), Fault> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn allowed_cores() -> Result<Vec<usize>, Fault> {
    Ok(Vec::new())
}
