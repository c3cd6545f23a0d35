use super::message::DbusMessageKind;
use super::*;

#[test]
fn an_address_is_a_list_of_sockets() {
    let check = |text: &str, expected: Vec<Socket>| {
        assert_eq!(BusAddress::parse(text), BusAddress(expected), "{text}");
    };
    check(
        "unix:path=/run/user/1000/bus,guid=0a",
        vec![Socket::Path("/run/user/1000/bus".into())],
    );
    check(
        "tcp:host=localhost,port=1;unix:abstract=/tmp/dbus-%31;unix:guid=0a,path=/a%20b",
        vec![
            Socket::Abstract(b"/tmp/dbus-1".to_vec()),
            Socket::Path("/a b".into()),
        ],
    );
    check("unix:path=/a%2", vec![]);
    check("", vec![]);
}

#[test]
fn a_message_of_the_other_byte_order_is_read() {
    let bytes = [
        b"B\x02\x01\x01".as_slice(),
        &6_u32.to_be_bytes(),
        &9_u32.to_be_bytes(),
        &15_u32.to_be_bytes(),
        // The serial of the call, then the signature.
        b"\x05\x01u\x00\x00\x00\x00\x03",
        b"\x08\x01g\x00\x01s\x00\x00",
        &1_u32.to_be_bytes(),
        b"x\x00",
    ]
    .concat();
    let message = read_message(&mut &bytes[..]).unwrap();
    assert_eq!(message.kind, DbusMessageKind::Return);
    assert_eq!(message.reply_serial, Some(3));
    assert_eq!(message.body("s").unwrap().text().unwrap(), "x");
}

/// Each prefix, and each message with one other byte: refused or read, never a panic.
#[test]
fn a_malformed_message_is_refused() {
    let mut body = MessageBody::new("a{sv}ao(oayays)b");
    body.array(8, |entries| {
        entries.align(8);
        entries.string("key");
        entries.string_variant("value");
    });
    body.array(4, |paths| paths.string("/item/1"));
    body.align(8);
    body.string("/session");
    body.bytes(&[]);
    body.bytes(b"secret");
    body.string("text/plain");
    body.boolean(true);
    let bytes = message::method_call(1, "a.b", "/c", "d.e", "F", &body);
    assert_eq!(read_message(&mut &bytes[..]).unwrap().member, "F");
    let read_all = |bytes: &[u8]| -> Result<(), BusFault> {
        let mut body = read_message(&mut &bytes[..])?.into_body();
        body.number()?;
        body.align(8)?;
        body.text()?;
        body.skip_string_variant()?;
        body.object_paths()?;
        body.align(8)?;
        body.object_path()?;
        body.bytes()?;
        body.bytes()?;
        body.text()?;
        body.boolean().map(drop)
    };
    read_all(&bytes).unwrap();
    for length in 0..bytes.len() {
        assert!(read_all(&bytes[..length]).is_err(), "{length}");
    }
    for at in 0..bytes.len() {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = byte;
            let _ = read_all(&changed);
        }
    }
}
