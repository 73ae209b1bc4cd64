//! An etcd process on free ports, stopped on drop.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::storage::etcd::{Certificates, Endpoint, Etcd};
use crate::storage::{Error, Limits};

/// The contract uses values above etcd's default limit.
const MAX_REQUEST_BYTES: usize = 32 * 1024 * 1024;

/// A running etcd, killed on drop.
pub(super) struct Server {
    pub(super) port: u16,
    scheme: &'static str,
    folder: TempDir,
    flags: Vec<String>,
    child: Option<Child>,
}

impl Server {
    /// An etcd without TLS.
    pub(super) fn start() -> Self {
        Self::with_flags("http", tempfile::tempdir().unwrap(), Vec::new())
    }

    /// An etcd with additional flags, with its files in that folder.
    pub(super) fn with_flags(scheme: &'static str, folder: TempDir, flags: Vec<String>) -> Self {
        let mut server = Self { port: 0, scheme, folder, flags, child: None };
        // Another process may take the port before etcd does.
        let started = (0..5).any(|_| {
            server.port = free_port();
            server.launch()
        });
        assert!(started, "etcd does not start");
        server
    }

    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Restarts it on the same port.
    pub(super) fn restart(&mut self) {
        self.kill();
        assert!(self.launch(), "etcd does not start again");
    }

    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint::parse(&format!("{}://127.0.0.1:{}", self.scheme, self.port)).unwrap()
    }

    pub(super) async fn open(&self, limits: Limits) -> Result<Etcd, Error> {
        Etcd::open(vec![self.endpoint()], &Certificates::default(), limits).await
    }

    fn launch(&mut self) -> bool {
        let client = format!("{}://127.0.0.1:{}", self.scheme, self.port);
        let peer = format!("http://127.0.0.1:{}", free_port());
        let mut command = Command::new(program());
        command.arg("--data-dir").arg(self.folder.path().join("data"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}")]);
        command.args(["--max-request-bytes", &MAX_REQUEST_BYTES.to_string()]).args(&self.flags);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let is_ready = log.by_ref().any(|line| line.unwrap().contains("ready to serve client requests"));
        if is_ready {
            // An unread pipe would block etcd.
            std::thread::spawn(move || log.for_each(drop));
            self.child = Some(child);
        } else {
            child.wait().unwrap();
        }
        is_ready
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A free port.
pub(super) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/setup/etcd-server/usr/bin/etcd");
    let found = std::env::split_paths(&path).map(|folder| folder.join("etcd")).chain([unpacked]);
    found.into_iter().find(|path| path.exists()).expect("etcd is missing: run hack/setup.sh test")
}
