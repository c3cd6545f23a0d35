//! For tests: the other end of a connection, whose answers a closure gives.

use super::message::{self, DbusMessageKind};
use super::*;

/// A call that arrived.
pub(in super::super) struct ReceivedCall {
    pub(in super::super) path: String,
    pub(in super::super) member: String,
    pub(in super::super) body: BodyReader,
}

/// What a call is answered with.
pub(in super::super) enum FakeAnswer {
    Return(MessageBody),
    /// The name of the error and its text.
    Error(&'static str, &'static str),
    /// Nothing is returned, and then the signal `Completed` of the called object is sent.
    Completed(MessageBody),
}

/// Admits whoever connects, and answers each call of another object than the bus.
pub(in super::super) fn start(
    mut answer: impl FnMut(ReceivedCall) -> FakeAnswer + Send + 'static,
) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().unwrap();
    std::thread::spawn(move || {
        let mut stream = BufReader::new(theirs);
        let mut line = Vec::new();
        for reply in ["OK 0123\r\n", ""] {
            line.clear();
            io::BufRead::read_until(&mut stream, b'\n', &mut line).unwrap();
            stream.get_mut().write_all(reply.as_bytes()).unwrap();
        }
        // Ends when the connection is dropped.
        while let Ok(call) = read_message(&mut stream) {
            for message in respond(call, &mut answer) {
                stream.get_mut().write_all(&message).unwrap();
            }
        }
    });
    ours
}

fn respond(call: Message, answer: &mut impl FnMut(ReceivedCall) -> FakeAnswer) -> Vec<Vec<u8>> {
    let (serial, path) = (call.serial, call.path.clone());
    let reply = |kind, fields: &[_], body: &MessageBody| {
        message::write(kind, 1, Some(serial), fields, body)
    };
    let returned = |body: &MessageBody| reply(DbusMessageKind::Return, &[], body);
    let empty = MessageBody::new("");
    if path == "/org/freedesktop/DBus" {
        let mut name = MessageBody::new("s");
        name.string(":1.7");
        let body = if call.member == "Hello" {
            &name
        } else {
            &empty
        };
        return vec![returned(body)];
    }
    let call = ReceivedCall {
        path: path.clone(),
        member: call.member.clone(),
        body: call.into_body(),
    };
    match answer(call) {
        FakeAnswer::Return(body) => vec![returned(&body)],
        FakeAnswer::Error(name, text) => {
            let mut body = MessageBody::new("s");
            body.string(text);
            let fields = [(message::ERROR_NAME, "s", name)];
            vec![reply(DbusMessageKind::Error, &fields, &body)]
        }
        FakeAnswer::Completed(body) => {
            let fields = [
                (message::PATH, "o", &*path),
                (message::INTERFACE, "s", "org.freedesktop.Secret.Prompt"),
                (message::MEMBER, "s", "Completed"),
            ];
            let signal = message::write(DbusMessageKind::Signal, 2, None, &fields, &body);
            vec![returned(&empty), signal]
        }
    }
}
