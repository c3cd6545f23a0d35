//! What a gateway writes down about itself, by which `reload` and `approvals` find it.
//!
//! The name of a gateway's socket is made from the project's files that exist when it starts. A
//! project's file that appears or disappears later changes that name, but not the gateway's folder.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde_json::{Value, json};
use switchboard_gateway::edge::socket::recorded_sockets;

use crate::arguments::Options;
use crate::paths::Paths;

/// The folder of a gateway, and the files and folders that it uses.
pub(crate) struct GatewayRecord {
    folder: String,
    /// The files given with `-c`. With them, the socket's name does not depend on the folder.
    given: Vec<String>,
    state: String,
    config: String,
    home: String,
}

impl GatewayRecord {
    /// The record of a gateway that starts in the current folder.
    pub(crate) fn new(paths: &Paths, options: &Options) -> Self {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        Self {
            folder: text(&paths.current),
            given: options.config.iter().map(text).collect(),
            state: text(&paths.state),
            config: text(&paths.config),
            home: text(&paths.home),
        }
    }

    pub(crate) fn as_json(&self) -> String {
        let Self {
            folder,
            given,
            state,
            config,
            home,
        } = self;
        json!({ "folder": folder, "given": given, "state": state, "config": config, "home": home })
            .to_string()
    }

    fn read(text: &str) -> Option<Self> {
        let record: Value = serde_json::from_str(text).ok()?;
        let field = |key: &str| Some(record[key].as_str()?.to_owned());
        let given = record["given"].as_array()?.iter();
        Some(Self {
            folder: field("folder")?,
            given: given
                .map(|file| file.as_str().unwrap_or_default().to_owned())
                .collect(),
            state: field("state")?,
            config: field("config")?,
            home: field("home")?,
        })
    }

    /// Whether this gateway serves the folder of `paths`, without files given with `-c`.
    fn serves(&self, paths: &Paths) -> bool {
        let is = |text: &String, path: &PathBuf| *text == path.to_string_lossy();
        self.given.is_empty()
            && is(&self.state, &paths.state)
            && is(&self.config, &paths.config)
            && is(&self.home, &paths.home)
            && (is(&self.folder, &paths.current) || is(&self.folder, &paths.project))
    }
}

/// The socket of the gateway for this folder and these options: of one that was started in this
/// folder or in the project's folder, else the one that `attach` uses.
pub(crate) fn find_socket(paths: &Paths, options: &Options) -> PathBuf {
    let default = paths.gateway_socket(options);
    if !options.config.is_empty() {
        return default;
    }
    let is_running = |socket: &PathBuf| UnixStream::connect(socket).is_ok();
    let sockets = recorded_sockets(&paths.runtime).into_iter();
    let of_folder: Vec<_> = sockets
        .filter(|(_, record)| {
            GatewayRecord::read(record).is_some_and(|record| record.serves(paths))
        })
        .map(|(socket, _)| socket)
        .filter(is_running)
        .collect();
    match of_folder.contains(&default) {
        true => default,
        false => of_folder.into_iter().next().unwrap_or(default),
    }
}
