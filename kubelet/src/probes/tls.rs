//! TLS towards containers: encrypted, never verified, as Kubernetes defines probes and hooks.

use std::sync::{Arc, OnceLock};

use apiserver::tls::Unverified;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::{Address, io_text};

/// What is spoken inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    Http1,
    Http2,
}

/// Shakes hands on a fresh connection to that address.
pub(super) async fn wrap(
    stream: TcpStream,
    address: &Address,
    inside: Inside,
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

/// One configuration for all probes: making one costs more than a probe may.
fn config(inside: Inside) -> Result<Arc<ClientConfig>, String> {
    static HTTP1: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    static HTTP2: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let (slot, protocols) = match inside {
        Inside::Http1 => (&HTTP1, vec![]),
        Inside::Http2 => (&HTTP2, vec![b"h2".to_vec()]),
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
    // A probe is to see a whole handshake each time, and memory is not to grow with the number of pods.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(slot.get_or_init(|| Arc::new(config)).clone())
}
