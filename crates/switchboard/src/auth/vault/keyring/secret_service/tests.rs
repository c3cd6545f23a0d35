use std::collections::BTreeMap;

use super::super::dbus::BodyReader;
use super::super::dbus::fake_bus::{self, FakeAnswer, ReceivedCall};
use super::*;

/// A service with one collection.
#[derive(Default)]
struct FakeSecrets {
    /// The secret of each `service/username`.
    items: BTreeMap<String, Vec<u8>>,
    is_locked: bool,
    /// The user closes the prompt.
    dismisses: bool,
    has_no_collection: bool,
}

impl FakeSecrets {
    fn start(mut self) -> SecretService {
        let stream = fake_bus::start(move |call| self.answer(call));
        SecretService::open(BusConnection::open(stream).unwrap()).unwrap()
    }

    fn answer(&mut self, mut call: ReceivedCall) -> FakeAnswer {
        let item = call.path.strip_prefix("/item/").map(str::to_owned);
        let body = &mut call.body;
        match (&*call.member, item) {
            ("OpenSession", _) => {
                assert_eq!(body.text().unwrap(), "plain");
                let mut opened = MessageBody::new("vo");
                opened.string_variant("");
                opened.string("/session/1");
                FakeAnswer::Return(opened)
            }
            ("SearchItems", _) => {
                let name = attributes_of(body);
                let found = self.items.contains_key(&name).then(|| item_path(&name));
                let mut answer = MessageBody::new("aoao");
                for is_locked in [false, true] {
                    let listed = found.iter().filter(|_| self.is_locked == is_locked);
                    answer.array(4, |paths| listed.for_each(|path| paths.string(path)));
                }
                FakeAnswer::Return(answer)
            }
            ("Unlock", _) => {
                let paths = body.object_paths().unwrap();
                let mut answer = MessageBody::new("aoo");
                answer.array(4, |list| {
                    for path in paths.iter().filter(|_| !self.is_locked) {
                        list.string(path);
                    }
                });
                answer.string(if self.is_locked { "/prompt/1" } else { "/" });
                FakeAnswer::Return(answer)
            }
            ("Prompt", _) => {
                self.is_locked = self.dismisses;
                let mut completed = MessageBody::new("bv");
                completed.boolean(self.dismisses);
                completed.string_variant("");
                FakeAnswer::Completed(completed)
            }
            ("ReadAlias", _) => {
                let mut answer = MessageBody::new("o");
                answer.string(if self.has_no_collection {
                    "/"
                } else {
                    "/login"
                });
                FakeAnswer::Return(answer)
            }
            _ if self.is_locked => {
                FakeAnswer::Error("org.freedesktop.Secret.Error.IsLocked", "locked\u{1b}[2J")
            }
            ("GetSecret", Some(item)) => {
                let mut answer = MessageBody::new("(oayays)");
                answer.string("/session/1");
                answer.bytes(&[]);
                answer.bytes(&self.items[&item.replace('_', "/")]);
                answer.string("text/plain");
                FakeAnswer::Return(answer)
            }
            ("SetSecret", Some(item)) => {
                let secret = secret_of(body);
                self.items.insert(item.replace('_', "/"), secret);
                FakeAnswer::Return(MessageBody::new(""))
            }
            ("CreateItem", None) => {
                let length = body.number().unwrap();
                assert!(length > 0);
                body.align(8).unwrap();
                assert_eq!(body.text().unwrap(), "org.freedesktop.Secret.Item.Label");
                body.skip_string_variant().unwrap();
                body.align(8).unwrap();
                body.text().unwrap();
                assert_eq!(body.signature().unwrap(), "a{ss}");
                let name = attributes_of(body);
                let secret = secret_of(body);
                assert!(body.boolean().unwrap());
                self.items.insert(name.clone(), secret);
                let mut answer = MessageBody::new("oo");
                answer.string(&item_path(&name));
                answer.string("/");
                FakeAnswer::Return(answer)
            }
            ("Delete", Some(item)) => {
                self.items.remove(&item.replace('_', "/"));
                let mut answer = MessageBody::new("o");
                answer.string("/");
                FakeAnswer::Return(answer)
            }
            (member, _) => panic!("unexpected call of {member}"),
        }
    }
}

fn item_path(name: &str) -> String {
    format!("/item/{}", name.replace('/', "_"))
}

/// `service/username` of the attributes.
fn attributes_of(body: &mut BodyReader) -> String {
    body.number().unwrap();
    let mut values = Vec::new();
    for name in ["service", "username"] {
        body.align(8).unwrap();
        assert_eq!(body.text().unwrap(), name);
        values.push(body.text().unwrap());
    }
    values.join("/")
}

fn secret_of(body: &mut BodyReader) -> Vec<u8> {
    body.align(8).unwrap();
    assert_eq!(body.text().unwrap(), "/session/1");
    body.bytes().unwrap();
    let secret = body.bytes().unwrap().to_vec();
    body.text().unwrap();
    secret
}

fn with_one(is_locked: bool) -> FakeSecrets {
    FakeSecrets {
        items: BTreeMap::from([("switchboard/key".to_owned(), b"canary".to_vec())]),
        is_locked,
        ..FakeSecrets::default()
    }
}

#[test]
fn an_entry_is_created_read_replaced_and_removed() {
    let mut secrets = FakeSecrets::default().start();
    let read = |secrets: &mut SecretService| secrets.get("switchboard", "key").unwrap();
    assert_eq!(read(&mut secrets), None);
    secrets.put("switchboard", "key", "one").unwrap();
    assert_eq!(read(&mut secrets).as_deref(), Some("one"));
    secrets.put("switchboard", "key", "two").unwrap();
    assert_eq!(read(&mut secrets).as_deref(), Some("two"));
    secrets.remove("switchboard", "key").unwrap();
    secrets.remove("switchboard", "key").unwrap();
    assert_eq!(read(&mut secrets), None);
}

#[test]
fn what_is_locked_is_unlocked_by_the_user() {
    let found = with_one(true).start().get("switchboard", "key").unwrap();
    assert_eq!(found.as_deref(), Some("canary"));
    let mut secrets = FakeSecrets {
        is_locked: true,
        ..FakeSecrets::default()
    }
    .start();
    secrets.put("switchboard", "key", "new").unwrap();
    let found = secrets.get("switchboard", "key").unwrap();
    assert_eq!(found.as_deref(), Some("new"));
}

#[test]
fn a_failure_is_one_safe_line() {
    let check = |fault: BusFault, expected: &str| assert_eq!(words(&fault), expected);
    let dismissed = FakeSecrets {
        dismisses: true,
        ..with_one(true)
    };
    let mut dismissed = dismissed.start();
    check(
        dismissed.get("switchboard", "key").unwrap_err(),
        "it was not unlocked",
    );
    let mut binary = with_one(false);
    binary
        .items
        .insert("switchboard/key".to_owned(), vec![0xff]);
    check(
        binary.start().get("switchboard", "key").unwrap_err(),
        "the entry is not text",
    );
    let mut bare = FakeSecrets {
        has_no_collection: true,
        ..FakeSecrets::default()
    }
    .start();
    check(
        bare.put("switchboard", "key", "x").unwrap_err(),
        "it has no default collection",
    );
    let refused = |name: &str, message: &str| BusFault::Refused {
        name: name.to_owned(),
        message: message.to_owned(),
    };
    check(
        refused("org.freedesktop.DBus.Error.ServiceUnknown", "no"),
        "none is running",
    );
    check(refused("a.b", "locked\u{1b}[2J"), "locked\\u{1b}[2J");
}
