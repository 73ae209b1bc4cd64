//! A minimal client: one HTTP/1.1 connection over TLS with a client certificate. It shares the CPUs with the master, so
//! it does as little as possible.

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

/// Address and TLS configuration of a master.
#[derive(Clone)]
pub struct Way {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

/// An open connection to a master.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
}

impl Way {
    /// Returns the address of a master with the administrator's TLS configuration. Fails until the master has
    /// written `admin.kubeconfig`.
    pub fn to(master: &Master) -> Result<Self, String> {
        let admin = master.admin()?;
        let own = (admin.credentials.certificates.as_str(), admin.credentials.key.as_str());
        let tls = Arc::new(tests::tls_config(&admin.authority, Some(own))?);
        Ok(Self { address: SocketAddr::from((Ipv4Addr::LOCALHOST, master.port.number)), tls })
    }

    /// Returns the same address with another CA certificate, and another client certificate and key. All are PEM.
    pub fn shows(&self, authority: &str, own: Option<(&str, &str)>) -> Self {
        Self { address: self.address, tls: Arc::new(tests::tls_config(authority, own).unwrap()) }
    }

    /// Opens a connection.
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
    /// Sends a request and reads the whole response. Returns the status code and the body.
    pub async fn exchange(&mut self, method: Method, path: &str, body: &str) -> Result<(u16, Bytes), String> {
        let (code, body) = self.begin(method, path, body).await?;
        let body = body.collect().await.map_err(|error| error.to_string())?;
        Ok((code, body.to_bytes()))
    }

    /// Sends a request and returns the response with its body unread.
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
