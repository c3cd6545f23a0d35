//! The key of a model's vendor in the vault: stored, read and deleted. It is bound to the address
//! that it was given for.

use std::io::IsTerminal;

use serde_json::json;
use switchboard::auth::VaultFault;
use switchboard::secret::Secret;
use switchboard_agent::ModelSettings;

use crate::command::run::model::key_target;
use crate::failure::{Code, Failure};
use crate::paths::Paths;
use crate::setup::{Setup, block_on, open_lasting_vault, open_vault};
use crate::terminal::hidden_line;
use crate::terminal::login::read_line_from_stdin;
use crate::view::server::escaped;
use crate::{interrupt, output};

/// Asks for the key at the terminal, or reads it from stdin, and stores it.
pub(in crate::command) fn store(setup: &Setup, vendor: &str) -> Result<u8, Failure> {
    let settings = key_target(setup, vendor)?;
    let vault = open_lasting_vault(&setup.paths)?;
    let host = escaped(&settings.host());
    let key = match std::io::stdin().is_terminal() {
        true => {
            let question = format!("Key for {host} (not shown): ");
            block_on(interrupt::run_until_signal(async {
                Ok(hidden_line::ask(&question).await)
            }))?
        }
        false => read_line_from_stdin(),
    };
    let key = key.map(|key| key.trim().to_owned());
    let Some(key) = key.filter(|key| !key.is_empty()) else {
        return Err(Failure::new(
            Code::Usage,
            "no key was given; nothing was stored",
        ));
    };
    if key.contains(|character: char| character.is_control() || character.is_whitespace()) {
        return Err(Failure::new(
            Code::Usage,
            "a key has no spaces and no control characters; nothing was stored",
        ));
    }
    // A vault stores JSON texts.
    let stored = Secret::new(serde_json::Value::from(key).to_string());
    vault.put(&vault_key(&settings), &stored).map_err(failed)?;
    let place = vault.place();
    if setup.json {
        let document = json!({ "host": settings.host(), "stored": true, "place": place });
        output::print_json(&document.to_string())?;
    } else {
        let place = escaped(&place);
        output::print(&format!("the key for {host} was stored in {place}\n"))?;
    }
    Ok(0)
}

/// Deletes the key.
pub(in crate::command) fn delete(setup: &Setup, vendor: &str) -> Result<u8, Failure> {
    let settings = key_target(setup, vendor)?;
    let vault = open_lasting_vault(&setup.paths)?;
    let key = vault_key(&settings);
    let was_stored = vault.get(&key).map_err(failed)?.is_some();
    vault.remove(&key).map_err(failed)?;
    if setup.json {
        let document = json!({ "host": settings.host(), "wasStored": was_stored });
        output::print_json(&document.to_string())?;
        return Ok(0);
    }
    let host = escaped(&settings.host());
    output::print(&match was_stored {
        true => format!("the key for {host} was deleted here; the vendor still accepts it\n"),
        false => format!("no key for {host} was stored\n"),
    })?;
    Ok(0)
}

/// The stored key for the model's server.
pub(in crate::command) fn stored(paths: &Paths, settings: &ModelSettings) -> Option<Secret> {
    let (vault, key) = (open_vault(paths), vault_key(settings));
    // A keyring may block and needs a runtime of its own.
    let read = std::thread::spawn(move || vault.get(&key)).join().ok()?;
    let stored = read.unwrap_or_else(|fault| {
        output::notice(&format!(
            "the stored key was not read: {}",
            escaped(&fault.to_string())
        ));
        None
    })?;
    let key: String = serde_json::from_str(stored.expose()).ok()?;
    Some(Secret::new(key))
}

fn vault_key(settings: &ModelSettings) -> String {
    format!("model:{}", settings.endpoint())
}

fn failed(fault: VaultFault) -> Failure {
    Failure::new(
        Code::Usage,
        format!("the key store failed: {}", escaped(&fault.to_string())),
    )
}
