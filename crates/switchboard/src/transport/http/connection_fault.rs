//! Describes connection errors as faults, and says whether the request was sent.

use std::error::Error;
use std::io;

use super::response::BodyError;
use super::stack::CONNECT_DEADLINE;
use crate::transport::TransportFault;
use crate::untrusted::Untrusted;

/// The fault of a request of the shared pool without a response. `address` is its host and port.
pub(crate) fn send_fault(error: &reqwest::Error, address: &str) -> TransportFault {
    if error.is_builder() {
        return TransportFault::NotSent(format!(
            "invalid request to {address}: {}",
            root_cause(error)
        ));
    }
    if !error.is_connect() {
        return pool_fault(error, address);
    }
    if error.is_dns() {
        return TransportFault::NotSent(format!("cannot resolve {address} (check the URL)"));
    }
    let kind = if error.is_timeout() {
        Some(io::ErrorKind::TimedOut)
    } else {
        kind(error)
    };
    connect_fault(kind, &root_cause(error), address)
}

/// The fault if no connection was established; `details` say why if the kind does not.
pub(super) fn connect_fault(
    kind: Option<io::ErrorKind>,
    details: &str,
    address: &str,
) -> TransportFault {
    TransportFault::NotSent(match kind {
        Some(io::ErrorKind::TimedOut) => format!(
            "no connection to {address} within {} s",
            CONNECT_DEADLINE.as_secs()
        ),
        Some(io::ErrorKind::ConnectionRefused) => {
            format!("{address} refused the connection (is the server running?)")
        }
        Some(
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe,
        ) => {
            format!("{address} reset the connection before it was established")
        }
        Some(io::ErrorKind::UnexpectedEof) => {
            format!("{address} closed the connection before it was established")
        }
        Some(io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable) => {
            format!("{address} is unreachable from this machine")
        }
        // After TCP has connected, such an error comes from TLS or a proxy.
        Some(io::ErrorKind::InvalidData) => format!("TLS with {address} failed: {details}"),
        _ => format!("no connection to {address}: {details}"),
    })
}

/// The fault of a body that could not be read to its end.
pub(in crate::transport) fn body_fault(broken: &BodyError, address: &str) -> TransportFault {
    match broken {
        BodyError::Direct(error) => direct_fault(error, address),
        BodyError::Pooled(error) => pool_fault(error, address),
    }
}

/// The fault of a connection of our own pool that failed before the response was complete.
pub(super) fn direct_fault(error: &io::Error, address: &str) -> TransportFault {
    // The text may contain data from the server.
    let details = Untrusted::new(error.to_string());
    let details = details.for_terminal_line();
    TransportFault::Lost(match error.kind() {
        io::ErrorKind::InvalidData => format!("invalid HTTP response from {address}: {details}"),
        kind => connection_ended(Some(kind), &details.to_string(), address),
    })
}

/// The fault of a connection of the shared pool that failed before the response was complete.
fn pool_fault(error: &reqwest::Error, address: &str) -> TransportFault {
    TransportFault::Lost(match kind(error) {
        kind if kind != Some(io::ErrorKind::ConnectionReset) && error.is_decode() => {
            format!("cannot decompress the response from {address}")
        }
        kind => connection_ended(kind, &root_cause(error), address),
    })
}

fn connection_ended(kind: Option<io::ErrorKind>, details: &str, address: &str) -> String {
    match kind {
        Some(io::ErrorKind::ConnectionReset) => {
            format!("{address} reset the connection before the response was complete")
        }
        _ => {
            format!("the connection to {address} ended before the response was complete: {details}")
        }
    }
}

/// The kind of the first I/O error in the chain that has a specific one.
fn kind(error: &dyn Error) -> Option<io::ErrorKind> {
    chain(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .map(io::Error::kind)
        .find(|kind| *kind != io::ErrorKind::Other)
}

/// The last cause in the chain; the others only wrap it. It may contain data from the server.
fn root_cause(error: &dyn Error) -> String {
    let details = chain(error)
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string);
    Untrusted::new(details).for_terminal_line().to_string()
}

fn chain<'a>(error: &'a dyn Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&'a (dyn Error + 'static)| {
        // The `source` of an I/O error skips the error that it wraps.
        match cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(inner) => Some(inner as &'a (dyn Error + 'static)),
            None => (*cause).source(),
        }
    })
}
