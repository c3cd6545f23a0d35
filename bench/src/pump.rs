//! The floor of a gateway: a process between client and server that moves bytes and reads nothing.
//!
//! `__pump COMMAND…` copies between its standard streams and those of a server; `__pump --tcp
//! ADDRESS` prints the address that it listens on and connects each client to the server there.
//! From HTTP to stdio nothing can only move bytes: that is `http_pump`.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;

use crate::http_pump;
use crate::measure::Fault;

/// The hidden subcommand.
pub(crate) const MARKER: &str = "__pump";

const BUFFER_BYTES: usize = 64 * 1024;

/// Serves until one side ends.
pub(crate) fn run(mut words: impl Iterator<Item = String>) -> Result<(), Fault> {
    match words.next().as_deref() {
        Some("--http") => http_pump::run(&words.next().ok_or("--http needs a command")?, words),
        Some("--tcp") => over_tcp(&words.next().ok_or("--tcp needs an address")?),
        Some(program) => over_stdio(program, words),
        None => Err("a pump needs a command".into()),
    }
}

fn over_stdio(program: &str, words: impl Iterator<Item = String>) -> Result<(), Fault> {
    let mut server = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (input, output) = server
        .stdin
        .take()
        .zip(server.stdout.take())
        .ok_or("no pipes")?;
    let client = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    // The server ends when its input does, and that ends the other direction.
    thread::spawn(move || copy(client, input));
    copy(
        output,
        File::from(std::io::stdout().as_fd().try_clone_to_owned()?),
    );
    let _ = server.kill();
    server.wait()?;
    Ok(())
}

fn over_tcp(address: &str) -> Result<(), Fault> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    for client in listener.incoming() {
        let (client, server) = (client?, TcpStream::connect(address)?);
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        for (from, to) in [(client.try_clone()?, server.try_clone()?), (server, client)] {
            thread::spawn(move || {
                copy(&from, &to);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
    }
    Ok(())
}

/// Copies until either side ends.
fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}
