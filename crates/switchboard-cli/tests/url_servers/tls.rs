//! TLS with a certificate that is not trusted, or that is for another name: refused before anything
//! is sent.

use std::io::Read;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::home;
use super::support::ProgramOutput;

/// Longer than a connection takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn certificate_file(name: &str) -> String {
    format!("{}/tests/certificates/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A server with this certificate; what it receives of each connection, decrypted.
fn serve(certificate: &str) -> (u16, Receiver<String>) {
    let certificate = CertificateDer::from_pem_file(certificate_file(certificate)).unwrap();
    let key = PrivateKeyDer::from_pem_file(certificate_file("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let session = ServerConnection::new(config.clone()).unwrap();
            let mut bytes = [0; 4096];
            // An error is a connection that the other end refused.
            let count = StreamOwned::new(session, stream).read(&mut bytes);
            let text = String::from_utf8_lossy(&bytes[..count.unwrap_or(0)]).into_owned();
            if sender.send(text).is_err() {
                return;
            }
        }
    });
    (port, received)
}

/// The server's error in the status, with this file as the only trusted certificate, and what the
/// first connection received.
fn connect(certificate: &str, trusted: &str) -> (String, String) {
    let (port, received) = serve(certificate);
    let home = home(&format!("https://127.0.0.1:{port}/mcp"));
    let mut command = home.command(&["status", "--json"]);
    command.env("SSL_CERT_FILE", certificate_file(trusted));
    let ran = ProgramOutput::of(&command.output().unwrap());
    let error = ran.json()["servers"][0]["error"].to_string();
    let error = error.replace(&port.to_string(), "PORT");
    (error, received.recv_timeout(PATIENCE).unwrap())
}

/// F24: each has a message of its own, and nothing is sent.
#[test]
fn f24_a_certificate_that_is_not_trusted_or_for_another_name_is_refused() {
    let (error, received) = connect("this-machine.pem", "unrelated.pem");
    let expected = "TLS with 127.0.0.1:PORT failed: invalid peer certificate: UnknownIssuer";
    assert!(error.contains(expected), "{error}");
    assert_eq!(received, "");

    let (error, received) = connect("other-name.pem", "other-name.pem");
    let expected = "TLS with 127.0.0.1:PORT failed: invalid peer certificate: certificate not valid for name \\\"127.0.0.1\\\"";
    assert!(error.contains(expected), "{error}");
    assert_eq!(received, "");

    // The same server is used if its certificate is trusted.
    let (_, received) = connect("this-machine.pem", "this-machine.pem");
    assert!(received.starts_with("POST /mcp HTTP/1.1\r\n"), "{received}");
    assert!(received.contains("the-entry-s-own-key"), "{received}");
}
