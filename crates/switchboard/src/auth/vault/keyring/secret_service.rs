//! The Secret Service of the desktop (GNOME Keyring, KWallet, KeePassXC), over D-Bus.
//!
//! An entry is an item with the attributes `service` and `username`, in the default collection.
//! What is locked is unlocked first; the service may ask the user for that. Secrets cross the bus
//! as they are ("plain"): it is a socket of this user, and each program of this user can ask the
//! service for them.

use super::dbus::{BusAddress, BusConnection, BusFault, MessageBody, ObjectPath};
use crate::untrusted::escaped_line;

const BUS_NAME: &str = "org.freedesktop.secrets";
const SERVICE_PATH: &str = "/org/freedesktop/secrets";
const SERVICE: &str = "org.freedesktop.Secret.Service";
const COLLECTION: &str = "org.freedesktop.Secret.Collection";
const ITEM: &str = "org.freedesktop.Secret.Item";
const PROMPT: &str = "org.freedesktop.Secret.Prompt";

/// The path that stands for "none".
const NONE: &str = "/";

pub(super) fn get(service: &str, key: &str) -> Result<Option<String>, String> {
    SecretService::connect()
        .and_then(|mut secrets| secrets.get(service, key))
        .map_err(|fault| words(&fault))
}

pub(super) fn put(service: &str, key: &str, value: &str) -> Result<(), String> {
    SecretService::connect()
        .and_then(|mut secrets| secrets.put(service, key, value))
        .map_err(|fault| words(&fault))
}

pub(super) fn remove(service: &str, key: &str) -> Result<(), String> {
    SecretService::connect()
        .and_then(|mut secrets| secrets.remove(service, key))
        .map_err(|fault| words(&fault))
}

fn words(fault: &BusFault) -> String {
    match fault {
        BusFault::Unavailable => "none is running".to_owned(),
        BusFault::Refused { name, .. } if name == "org.freedesktop.DBus.Error.ServiceUnknown" => {
            "none is running".to_owned()
        }
        BusFault::Refused { message, .. } => escaped_line(message).to_string(),
        BusFault::Io(error) => error.to_string(),
        BusFault::Malformed => "the response on the D-Bus is malformed".to_owned(),
        BusFault::Other(fact) => (*fact).to_owned(),
    }
}

/// A connection to the Secret Service, with a session for secrets.
struct SecretService {
    bus: BusConnection,
    session: ObjectPath,
}

impl SecretService {
    fn connect() -> Result<Self, BusFault> {
        Self::open(BusConnection::connect(&BusAddress::of_session()?)?)
    }

    fn open(mut bus: BusConnection) -> Result<Self, BusFault> {
        let mut body = MessageBody::new("sv");
        body.string("plain");
        body.string_variant("");
        let mut opened = bus.call(BUS_NAME, SERVICE_PATH, SERVICE, "OpenSession", &body, "vo")?;
        opened.skip_string_variant()?;
        let session = opened.object_path()?;
        Ok(Self { bus, session })
    }

    fn get(&mut self, service: &str, key: &str) -> Result<Option<String>, BusFault> {
        let Some(item) = self.find(service, key)? else {
            return Ok(None);
        };
        let mut body = MessageBody::new("o");
        body.string(&self.session);
        let mut secret = self.call(&item, ITEM, "GetSecret", &body, "(oayays)")?;
        secret.align(8)?;
        secret.object_path()?;
        secret.bytes()?;
        let value = secret.bytes()?.to_vec();
        let text = String::from_utf8(value);
        Ok(Some(
            text.map_err(|_| BusFault::Other("the entry is not text"))?,
        ))
    }

    fn put(&mut self, service: &str, key: &str, value: &str) -> Result<(), BusFault> {
        if let Some(item) = self.find(service, key)? {
            let mut body = MessageBody::new("(oayays)");
            self.secret(&mut body, value);
            return self.call(&item, ITEM, "SetSecret", &body, "").map(drop);
        }
        let collection = self.default_collection()?;
        let mut body = MessageBody::new("a{sv}(oayays)b");
        body.array(8, |properties| {
            properties.align(8);
            properties.string("org.freedesktop.Secret.Item.Label");
            properties.string_variant(&format!("keyring:{key}@{service}"));
            properties.align(8);
            properties.string("org.freedesktop.Secret.Item.Attributes");
            properties.signature("a{ss}");
            attributes(properties, service, key);
        });
        self.secret(&mut body, value);
        // An item with the same attributes is replaced.
        body.boolean(true);
        let mut created = self.call(&collection, COLLECTION, "CreateItem", &body, "oo")?;
        created.object_path()?;
        let prompt = created.object_path()?;
        self.complete(prompt)
    }

    fn remove(&mut self, service: &str, key: &str) -> Result<(), BusFault> {
        let Some(item) = self.find(service, key)? else {
            return Ok(());
        };
        let mut deleted = self.call(&item, ITEM, "Delete", &MessageBody::new(""), "o")?;
        let prompt = deleted.object_path()?;
        self.complete(prompt)
    }

    /// The item of a key, unlocked.
    fn find(&mut self, service: &str, key: &str) -> Result<Option<ObjectPath>, BusFault> {
        let mut body = MessageBody::new("a{ss}");
        attributes(&mut body, service, key);
        let mut found = self.call(SERVICE_PATH, SERVICE, "SearchItems", &body, "aoao")?;
        let (mut items, locked) = (found.object_paths()?, found.object_paths()?);
        self.unlock(&locked)?;
        items.extend(locked);
        match items.len() {
            0 | 1 => Ok(items.pop()),
            _ => Err(BusFault::Other("it has several entries for this login")),
        }
    }

    /// The collection that new items are created in, unlocked.
    fn default_collection(&mut self) -> Result<ObjectPath, BusFault> {
        let mut body = MessageBody::new("s");
        body.string("default");
        let mut found = self.call(SERVICE_PATH, SERVICE, "ReadAlias", &body, "o")?;
        let collection = found.object_path()?;
        if collection == NONE {
            return Err(BusFault::Other("it has no default collection"));
        }
        self.unlock(std::slice::from_ref(&collection))?;
        Ok(collection)
    }

    /// Unlocks items or collections; what is unlocked already stays so.
    fn unlock(&mut self, paths: &[ObjectPath]) -> Result<(), BusFault> {
        if paths.is_empty() {
            return Ok(());
        }
        let mut body = MessageBody::new("ao");
        body.array(4, |list| {
            for path in paths {
                list.string(path);
            }
        });
        let mut unlocked = self.call(SERVICE_PATH, SERVICE, "Unlock", &body, "aoo")?;
        unlocked.object_paths()?;
        let prompt = unlocked.object_path()?;
        self.complete(prompt)
    }

    /// Shows the prompt that an operation needs, if it needs one, and waits for the user.
    fn complete(&mut self, prompt: ObjectPath) -> Result<(), BusFault> {
        if prompt == NONE {
            return Ok(());
        }
        self.bus.subscribe(PROMPT, "Completed")?;
        let mut body = MessageBody::new("s");
        // No window of ours belongs to it.
        body.string("");
        self.call(&prompt, PROMPT, "Prompt", &body, "")?;
        let mut completed = self.bus.wait_for_signal(&prompt, PROMPT, "Completed")?;
        if completed.boolean()? {
            return Err(BusFault::Other("it was not unlocked"));
        }
        Ok(())
    }

    /// A secret as the service takes it: the session, no parameters, the bytes, their type.
    fn secret(&self, body: &mut MessageBody, value: &str) {
        body.align(8);
        body.string(&self.session);
        body.bytes(&[]);
        body.bytes(value.as_bytes());
        body.string("application/octet-stream");
    }

    fn call(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
        body: &MessageBody,
        returns: &'static str,
    ) -> Result<super::dbus::BodyReader, BusFault> {
        self.bus
            .call(BUS_NAME, path, interface, member, body, returns)
    }
}

/// The attributes that an entry is found by.
fn attributes(body: &mut MessageBody, service: &str, key: &str) {
    body.array(8, |attributes| {
        for (name, value) in [("service", service), ("username", key)] {
            attributes.align(8);
            attributes.string(name);
            attributes.string(value);
        }
    });
}

#[cfg(test)]
mod tests;
