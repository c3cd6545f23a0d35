//! What went wrong with a connection, in words: each way has its own, and each says whether the
//! request had left.

use std::error::Error;
use std::io;

use super::response::Broken;
use super::stack::CONNECT_DEADLINE;
use crate::transport::WireFault;
use crate::untrusted::Untrusted;

/// A request that brought no response. `place` is the host and port that it went to.
pub(crate) fn unsent(error: &reqwest::Error, place: &str) -> WireFault {
    if error.is_builder() {
        return WireFault::NotSent(format!(
            "the request to {place} could not be made: {}",
            innermost(error)
        ));
    }
    if !error.is_connect() {
        return lost(error, place);
    }
    if error.is_dns() {
        return WireFault::NotSent(format!("no address was found for {place} (check the URL)"));
    }
    let kind = if error.is_timeout() {
        Some(io::ErrorKind::TimedOut)
    } else {
        kind(error)
    };
    unconnected(kind, &innermost(error), place)
}

/// No connection came to be; `words` say why where the kind does not.
pub(super) fn unconnected(kind: Option<io::ErrorKind>, words: &str, place: &str) -> WireFault {
    WireFault::NotSent(match kind {
        Some(io::ErrorKind::TimedOut) => format!(
            "no connection to {place} within {} s",
            CONNECT_DEADLINE.as_secs()
        ),
        Some(io::ErrorKind::ConnectionRefused) => {
            format!("{place} refused the connection (is the server running?)")
        }
        Some(
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe,
        ) => {
            format!("{place} reset the connection before it was established")
        }
        Some(io::ErrorKind::UnexpectedEof) => {
            format!("{place} closed the connection before it was established")
        }
        Some(io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable) => {
            format!("{place} cannot be reached from here")
        }
        // What is left after the connection itself is TLS, or a proxy's no.
        Some(io::ErrorKind::InvalidData) => format!("TLS with {place} failed: {words}"),
        _ => format!("no connection to {place}: {words}"),
    })
}

/// A body that ended too soon.
pub(in crate::transport) fn cut_off(broken: &Broken, place: &str) -> WireFault {
    match broken {
        Broken::Direct(error) => broken_line(error, place),
        Broken::Stack(error) => lost(error, place),
    }
}

/// A connection of our own that ended before its answer did.
pub(super) fn broken_line(error: &io::Error, place: &str) -> WireFault {
    // They may hold what a peer said.
    let words = Untrusted::new(error.to_string());
    let words = words.for_terminal_line();
    WireFault::Lost(match error.kind() {
        io::ErrorKind::InvalidData => format!("the answer of {place} is no HTTP: {words}"),
        kind => ended(Some(kind), &words.to_string(), place),
    })
}

/// A connection of the shared stack that ended before its answer did.
fn lost(error: &reqwest::Error, place: &str) -> WireFault {
    WireFault::Lost(match kind(error) {
        kind if kind != Some(io::ErrorKind::ConnectionReset) && error.is_decode() => {
            format!("the answer of {place} could not be decompressed")
        }
        kind => ended(kind, &innermost(error), place),
    })
}

fn ended(kind: Option<io::ErrorKind>, words: &str, place: &str) -> String {
    match kind {
        Some(io::ErrorKind::ConnectionReset) => {
            format!("{place} reset the connection before the answer was complete")
        }
        _ => format!("the connection to {place} ended before the answer was complete: {words}"),
    }
}

/// The first I/O error in the chain that says what kind it is.
fn kind(error: &dyn Error) -> Option<io::ErrorKind> {
    chain(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .map(io::Error::kind)
        .find(|kind| *kind != io::ErrorKind::Other)
}

/// The words of the last cause: the ones before only wrap it. They may hold what a peer said.
fn innermost(error: &dyn Error) -> String {
    let words = chain(error)
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string);
    Untrusted::new(words).for_terminal_line().to_string()
}

fn chain<'a>(error: &'a dyn Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&'a (dyn Error + 'static)| {
        // An I/O error that wraps another passes over it when asked for its source.
        match cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(inner) => Some(inner as &'a (dyn Error + 'static)),
            None => (*cause).source(),
        }
    })
}
