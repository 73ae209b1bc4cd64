//! The client beside the master: one connection of HTTP/1.1 over TLS with a certificate, as light as can be, because it
//! takes its part of the same processors.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tests::Master;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Where a master is, and how it is trusted.
#[derive(Clone)]
pub struct Way {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

/// A connection to it.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
}

impl Way {
    /// The way of the administrator; none before the master has written it down.
    pub fn to(master: &Master) -> Result<Self, String> {
        let admin = master.admin()?;
        let own = (admin.credentials.certificates.as_str(), admin.credentials.key.as_str());
        let tls = Arc::new(tests::tls_config(&admin.authority, Some(own))?);
        Ok(Self { address: SocketAddr::from((Ipv4Addr::LOCALHOST, master.port.number)), tls })
    }

    /// The same way for somebody else: the authority, and the certificate and key that are shown, all PEM.
    pub fn shows(&self, authority: &str, own: Option<(&str, &str)>) -> Self {
        Self { address: self.address, tls: Arc::new(tests::tls_config(authority, own).unwrap()) }
    }

    /// A new connection.
    pub async fn connect(&self) -> Result<Connection, String> {
        let stream = TcpStream::connect(self.address).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let name = ServerName::from(self.address.ip());
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await;
        let stream = TokioIo::new(stream.map_err(|error| error.to_string())?);
        let handshake = hyper::client::conn::http1::handshake(stream).await;
        let (sender, connection) = handshake.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(Connection { sender })
    }
}

impl Connection {
    /// Asks, and reads the whole answer: its code and body.
    pub async fn ask(&mut self, method: Method, path: &str, body: &str) -> Result<(u16, Bytes), String> {
        let (code, body) = self.begin(method, path, body).await?;
        let body = body.collect().await.map_err(|error| error.to_string())?;
        Ok((code, body.to_bytes()))
    }

    /// Asks, and leaves the answer's body to be read.
    pub async fn begin(&mut self, method: Method, path: &str, body: &str) -> Result<(u16, Incoming), String> {
        let content_type =
            if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "master")
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, content_type)
            .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
            .map_err(|error| error.to_string())?;
        self.sender.ready().await.map_err(|error| error.to_string())?;
        let response = self.sender.send_request(request).await.map_err(|error| error.to_string())?;
        Ok((response.status().as_u16(), response.into_body()))
    }
}
