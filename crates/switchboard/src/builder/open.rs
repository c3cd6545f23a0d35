//! Opens a host from one file or a few lines of code, with this process's environment and launcher.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::HostBuilder;
use crate::config::{self, Config, ConfigErrors, ConfigFile, Environment, Scope};
use crate::host::Host;
use crate::launch::{self, Launcher};

/// Whether this program can be started again as its own launcher process.
static IS_LAUNCHER_READY: AtomicBool = AtomicBool::new(false);

/// If this process was started as a launcher process, serves as one and never returns. Call it
/// first in `main`, before any thread starts: the servers of a [`Host`] that is opened later then
/// end with this process, however it ends.
///
/// Linux only. On other systems, and without this call, servers run in process groups: their
/// children may outlive a `kill -9` of this process. [`Host::containment`] says which of the two
/// applies.
pub fn launcher_main() {
    launch::launcher_main();
    IS_LAUNCHER_READY.store(true, Ordering::Relaxed);
}

impl Host {
    /// Starts the servers of a file, with this process's environment and launcher
    /// ([`launcher_main`]). The file may be of any kind that is recognised by its name or shape. It
    /// is trusted, since the program names it.
    ///
    /// Nobody can be asked for approval: calls that no rule allows are denied.
    /// [`HostBuilder::open`] has more options.
    pub async fn open(file: impl AsRef<Path>) -> Result<Self, ConfigErrors> {
        HostBuilder::open(file)?.start().await
    }

    /// Configures a host in code, with this process's environment and launcher ([`launcher_main`]).
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// use switchboard::{Host, Server};
    ///
    /// let host = Host::builder()
    ///     .server(Server::stdio("files", "npx").args(["-y", "@modelcontextprotocol/server-filesystem", "."]))
    ///     .allow("files/read_*")
    ///     .start()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn builder() -> HostBuilder {
        HostBuilder::new(Config::default()).with_process()
    }
}

impl HostBuilder {
    /// The servers and rules of a file, with this process's environment and launcher
    /// ([`launcher_main`]).
    pub fn open(file: impl AsRef<Path>) -> Result<Self, ConfigErrors> {
        let file = ConfigFile::new(file.as_ref(), Scope::Given);
        Ok(Self::new(config::load(&[file])?).with_process())
    }

    /// With this process's environment and, if `main` began with [`launcher_main`], its launcher.
    fn with_process(self) -> Self {
        self.environment(Environment::new(unicode(std::env::vars_os())))
            .launcher(process_launcher())
    }
}

/// The variables that are Unicode.
fn unicode(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (String, String)> {
    variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

fn process_launcher() -> Launcher {
    if !IS_LAUNCHER_READY.load(Ordering::Relaxed) {
        return Launcher::process_groups();
    }
    let started = std::env::current_exe().and_then(Launcher::start);
    started.unwrap_or_else(|error| {
        tracing::warn!("no launcher process ({error}): servers are kept in process groups");
        Launcher::process_groups()
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn a_variable_that_is_not_unicode_is_left_out() {
        let text = |text: &str| OsString::from(text);
        let broken = || OsString::from_vec(vec![0xff]);
        let variables = [
            (text("A"), broken()),
            (broken(), text("b")),
            (text("C"), text("c")),
        ];
        let kept: Vec<_> = unicode(variables.into_iter()).collect();
        assert_eq!(kept, [("C".to_owned(), "c".to_owned())]);
    }
}
