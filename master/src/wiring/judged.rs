//! What can be judged of the flags before anything is made: a master that cannot run leaves nothing behind.

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

/// Connections that wait to be accepted; what the runtime's own listeners have.
const WAITING: u32 = 1024;

/// Files that were read, and the port.
#[derive(Debug)]
pub struct Judged {
    /// Whom the policy of approvals asks.
    pub webhook: Option<Webhook>,
    /// What an etcd is shown.
    pub certificates: Certificates,
    /// Where the API is to be served.
    pub port: Port,
}

/// An address that is held, and at which nobody is heard yet.
#[derive(Debug)]
pub struct Port {
    socket: TcpSocket,
    address: SocketAddr,
}

impl Judged {
    /// Reads the files that flags name, and takes the port.
    ///
    /// # Errors
    /// The flag that cannot be carried out.
    pub fn of(options: &Options, data_dir: &DataDir) -> anyhow::Result<Self> {
        let webhook = webhook(&options.approval).context("--csr-approval-webhook")?;
        let certificates = store::certificates(&options.etcd)?;
        let address = options.address;
        let port = bound(address).map(|socket| Port { socket, address }).with_context(|| unheard(address));
        if port.is_err() && data_dir.is_known() {
            // Who starts a master twice is told that, rather than of its port.
            data_dir.take()?;
        }
        Ok(Self { webhook, certificates, port: port? })
    }
}

impl Port {
    /// Listens: from here on clients are let wait rather than refused.
    ///
    /// # Errors
    /// When somebody else has come first.
    pub fn listen(self) -> anyhow::Result<TcpListener> {
        let Self { socket, address } = self;
        socket.listen(WAITING).with_context(|| unheard(address))
    }
}

fn unheard(address: SocketAddr) -> String {
    format!("cannot listen on {address}; see --bind-address and --secure-port")
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // What lingers of connections to a master before is no reason to refuse the next one.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn webhook(approval: &Approval) -> anyhow::Result<Option<Webhook>> {
    let Some(path) = &approval.webhook else { return Ok(None) };
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let config = Kubeconfig::read(&text).with_context(|| {
        format!("{shown} is no kubeconfig with a server, its authority, a certificate and its key")
    })?;
    let webhook = Webhook::new(config).map_err(anyhow::Error::from_boxed);
    webhook.with_context(|| format!("cannot use {shown}")).map(Some)
}
