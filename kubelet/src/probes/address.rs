//! Resolves the target address of a probe or hook, and connects to it.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};

use k8s_openapi::api::core::v1::ContainerPort;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Ip(SocketAddr),
    /// A host name. It is resolved for each connection.
    Name(String, u16),
}

impl Address {
    /// Creates the address of `host`, or of the pod IP without a host. The port is a number or the name of a
    /// container port.
    pub fn new(
        host: Option<&str>,
        pod_ip: Option<IpAddr>,
        port: &IntOrString,
        ports: &[ContainerPort],
    ) -> Result<Self, String> {
        let port = resolve(port, ports)?;
        match (host.filter(|host| !host.is_empty()), pod_ip) {
            (Some(host), _) => Ok(Self::of(host, port)),
            (None, Some(ip)) => Ok(Self::Ip(SocketAddr::new(ip, port))),
            (None, None) => Err("the pod has no address yet".to_owned()),
        }
    }

    /// Creates the address of a host and port. IP addresses may have brackets.
    pub fn of(host: &str, port: u16) -> Self {
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        bare.parse()
            .map_or_else(|_| Self::Name(host.to_owned(), port), |ip| Self::Ip(SocketAddr::new(ip, port)))
    }

    /// Connects. Error texts are those of the stock kubelet, because users search for them.
    pub async fn connect(&self) -> Result<TcpStream, String> {
        let connected = match self {
            Self::Ip(address) => connect(*address).await,
            Self::Name(host, port) => connect_by_name(host, *port).await,
        };
        connected.map_err(|error| format!("dial tcp {self}: connect: {}", io_text(&error)))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => write!(f, "{address}"),
            Self::Name(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// Connects a non-blocking socket. Local connections complete immediately, so that most probes do not involve the
/// event loop.
async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => return Ok(socket.into()),
        Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    // A second call returns the result of the first.
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::ISCONN) => return Ok(socket.into()),
        Err(Errno::ALREADY) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = tokio::net::TcpStream::from_std(socket.into())?;
    stream.writable().await?;
    match stream.take_error()? {
        None => stream.into_std(),
        Some(error) => Err(error),
    }
}

async fn connect_by_name(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no such host");
    for address in tokio::net::lookup_host((host, port)).await? {
        match connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The text of an I/O error, without the error number.
pub(super) fn io_text(error: &io::Error) -> String {
    let text = error.to_string();
    match (error.raw_os_error(), text.find(" (os error")) {
        (Some(_), Some(end)) => text[..end].to_lowercase(),
        _ => text,
    }
}

/// The port number: the given number, the number of a named container port, or the digits in a string.
fn resolve(port: &IntOrString, ports: &[ContainerPort]) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => i64::from(*number),
        IntOrString::String(name) => match ports.iter().find(|p| p.name.as_deref() == Some(name)) {
            Some(port) => port.container_port.into(),
            None => name.parse().map_err(|_| {
                format!("the container has no port named {name:?}; name one of its ports or give a number")
            })?,
        },
    };
    u16::try_from(number).ok().filter(|port| *port > 0).ok_or_else(|| {
        format!("{number} is not a port; give a number from 1 to 65535 or the name of a container port")
    })
}
