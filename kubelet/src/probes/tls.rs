//! TLS for probes and hooks. Certificates are not verified, as Kubernetes defines it.

use std::sync::{Arc, OnceLock};

use apiserver::tls::Unverified;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::{Address, io_text};

/// Application protocol inside TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Performs the TLS handshake on a new connection.
pub(super) async fn wrap(
    stream: TcpStream,
    address: &Address,
    inside: Protocol,
) -> Result<TlsStream<TcpStream>, String> {
    let name = match address {
        Address::Ip(address) => ServerName::IpAddress(address.ip().into()),
        Address::Name(host, _) => {
            ServerName::try_from(host.clone()).map_err(|_| format!("{host:?} is not a host name"))?
        }
    };
    TlsConnector::from(config(inside)?).connect(name, stream).await.map_err(|error| {
        let plain = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match plain {
            Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) => {
                "http: server gave HTTP response to HTTPS client".to_owned()
            }
            _ => format!("tls: {}", io_text(&error)),
        }
    })
}

/// The client configuration. All probes share it, because it is expensive to create.
fn config(inside: Protocol) -> Result<Arc<ClientConfig>, String> {
    static HTTP1: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    static HTTP2: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let (slot, protocols) = match inside {
        Protocol::Http1 => (&HTTP1, vec![]),
        Protocol::Http2 => (&HTTP2, vec![b"h2".to_vec()]),
    };
    if let Some(config) = slot.get() {
        return Ok(config.clone());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
        .with_no_client_auth();
    config.alpn_protocols = protocols;
    // Each probe performs a full handshake, and memory does not grow with the number of pods.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(slot.get_or_init(|| Arc::new(config)).clone())
}
