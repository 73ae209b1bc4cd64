//! Preflight checks of the flags. They run before anything is written, so that a failed start leaves no files.

use std::io;
use std::net::SocketAddr;

use anyhow::Context as _;
use apiserver::storage::etcd::Certificates;
use tokio::net::{TcpListener, TcpSocket};

use crate::controllers::Webhook;
use crate::data_dir::DataDir;
use crate::kubeconfig::Kubeconfig;
use crate::options::{Approval, Options};
use crate::store;

/// Length of the listen backlog; the default of tokio's listeners.
const WAITING: u32 = 1024;

/// Files that were read, and the bound port.
#[derive(Debug)]
pub struct Preflight {
    /// Webhook of the CSR approval policy.
    pub webhook: Option<Webhook>,
    /// TLS settings for etcd.
    pub certificates: Certificates,
    /// The bound address of the API server.
    pub port: Port,
}

/// A bound socket that does not listen yet.
#[derive(Debug)]
pub struct Port {
    socket: TcpSocket,
    address: SocketAddr,
}

impl Preflight {
    /// Reads the files that flags name, and binds the port.
    ///
    /// # Errors
    /// If a flag has an invalid value. The error names the flag.
    pub fn run(options: &Options, data_dir: &DataDir) -> anyhow::Result<Self> {
        let webhook = webhook(&options.approval).context("--csr-approval-webhook")?;
        let certificates = store::certificates(&options.etcd)?;
        let address = options.address;
        let port =
            bound(address).map(|socket| Port { socket, address }).with_context(|| cannot_listen(address));
        if port.is_err() && data_dir.is_known() {
            // A second master on the directory gets the better error message of the lock.
            data_dir.take()?;
        }
        Ok(Self { webhook, certificates, port: port? })
    }
}

impl Port {
    /// Starts to listen. Connections are queued from then on.
    ///
    /// # Errors
    /// If another process listens on the port.
    pub fn listen(self) -> anyhow::Result<TcpListener> {
        let Self { socket, address } = self;
        socket.listen(WAITING).with_context(|| cannot_listen(address))
    }
}

fn cannot_listen(address: SocketAddr) -> String {
    format!("cannot listen on {address}; see --bind-address and --secure-port")
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections of a previous process in TIME_WAIT must not block the start.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn webhook(approval: &Approval) -> anyhow::Result<Option<Webhook>> {
    let Some(path) = &approval.webhook else { return Ok(None) };
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let config = Kubeconfig::read(&text).with_context(|| {
        format!("{shown} is not a kubeconfig with a server, its CA, a client certificate and its key")
    })?;
    let webhook = Webhook::new(config).map_err(anyhow::Error::from_boxed);
    webhook.with_context(|| format!("cannot use {shown}")).map(Some)
}
