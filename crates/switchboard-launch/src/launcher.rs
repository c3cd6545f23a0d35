//! Starts children, through a launcher process or each in a process group.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::child::{Child, ChildControl};
use crate::command::Command;
#[cfg(target_os = "linux")]
use crate::linux::LauncherConnection;
use crate::pipes;
use crate::process_group::ProcessGroup;

/// Starts children. Clones share one launcher process, which ends once the last clone was dropped
/// and the last child has ended.
#[derive(Debug, Clone)]
pub struct Launcher {
    method: Arc<SpawnMethod>,
}

#[derive(Debug)]
enum SpawnMethod {
    #[cfg(target_os = "linux")]
    LauncherProcess(LauncherConnection),
    ProcessGroups,
}

/// What keeps children from outliving this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Containment {
    /// The launcher process: no descendant survives, however this program ends.
    Launcher,
    /// Process groups and PDEATHSIG: a grandchild that leaves its group can survive, and so can any
    /// grandchild (any child, where there is no PDEATHSIG) if this program is killed by SIGKILL.
    ProcessGroups,
}

impl Launcher {
    /// Starts a launcher process: `program` with the environment variable that makes
    /// [`launcher_main`](crate::launcher_main) take over. Its `main` must call that function; most
    /// programs pass [`std::env::current_exe`]. Uses process groups where the system is not Linux.
    pub fn start(program: PathBuf) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        let method = SpawnMethod::LauncherProcess(LauncherConnection::start(program)?);
        #[cfg(not(target_os = "linux"))]
        let method = {
            let _ = program;
            SpawnMethod::ProcessGroups
        };
        Ok(Self {
            method: Arc::new(method),
        })
    }

    /// Uses process groups and PDEATHSIG, without a launcher process.
    pub fn process_groups() -> Self {
        Self {
            method: Arc::new(SpawnMethod::ProcessGroups),
        }
    }

    /// What keeps this launcher's children from outliving this program.
    pub fn containment(&self) -> Containment {
        match *self.method {
            #[cfg(target_os = "linux")]
            SpawnMethod::LauncherProcess(_) => Containment::Launcher,
            SpawnMethod::ProcessGroups => Containment::ProcessGroups,
        }
    }

    /// Starts one child, and returns once its program runs. Its standard streams are pipes. Stdout
    /// and stderr must be read, or the child blocks when they are full: see
    /// [`StderrTail::drain`](crate::StderrTail::drain).
    pub async fn spawn(&self, command: &Command) -> io::Result<Child> {
        let (host_ends, child_ends) = pipes::open()?;
        let (pid, control) = match &*self.method {
            #[cfg(target_os = "linux")]
            SpawnMethod::LauncherProcess(launcher) => {
                let (pid, keeper) = launcher.spawn(command, child_ends).await?;
                (pid, ChildControl::Keeper(keeper))
            }
            SpawnMethod::ProcessGroups => {
                let (pid, group) = ProcessGroup::spawn(command, child_ends).await?;
                (pid, ChildControl::Group(group))
            }
        };
        Ok(Child::new(pid, host_ends, control))
    }
}
