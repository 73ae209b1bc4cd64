//! An etcd for one test: a folder, two ports, and a process that can be killed and restarted.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::process::Process;
use crate::{DEADLINE, Master, Port, free_port, installed, wait_until};

/// An etcd under test. Dropping it stops the process and removes its files.
#[derive(Debug)]
pub struct Etcd {
    client: Port,
    peer: Port,
    folder: TempDir,
    process: Option<Process>,
}

impl Etcd {
    /// Starts an etcd and waits until it is ready.
    pub async fn running() -> Self {
        let mut etcd = Self::new();
        etcd.start().await;
        etcd
    }

    /// Starts an etcd on the data directory of another one, which is moved.
    pub async fn on_data(data: &Path) -> Self {
        let mut etcd = Self::new();
        std::fs::rename(data, etcd.folder.path().join("data")).unwrap();
        etcd.start().await;
        etcd
    }

    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("et").tempdir_in("/tmp").unwrap();
        Self { client: free_port(), peer: free_port(), folder, process: None }
    }

    /// Client URL.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.client)
    }

    /// Starts etcd and waits until it has a leader. It accepts connections earlier, but if it is killed before its log has its
    /// own membership, it can never elect a leader again.
    pub async fn start(&mut self) {
        assert!(self.process.is_none(), "this etcd already runs");
        let (url, peer) = (self.url(), format!("http://127.0.0.1:{}", self.peer));
        let mut command = Command::new(installed("etcd-server", "etcd"));
        command.arg("--data-dir").arg(self.folder.path().join("data"));
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}")]);
        self.process = Some(Process::start(&mut command, &self.log_path()));
        let address = self.url().replace("http://", "");
        let health = async || {
            let mut stream = TcpStream::connect(&address).await?;
            stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.map(|_| answer)
        };
        let look = async || match health().await {
            Ok(answer) if answer.contains("\"health\":\"true\"") => Ok(()),
            other => Err(format!("{other:?}")),
        };
        let ready = wait_until(DEADLINE, look).await;
        ready.unwrap_or_else(|seen| panic!("etcd is not there: {seen}\n{}", self.log()));
    }

    /// Returns a master that uses this etcd as its storage, without starting it.
    pub fn master(&self) -> Master {
        Master::new().with_flags(["--storage", "etcd", "--etcd-servers", &self.url()])
    }

    /// Returns another master of this etcd, with the certificates and keys of the first one.
    pub fn master_beside(&self, first: &Master) -> Master {
        let second = self.master();
        let (from, to) = (first.data_dir().join("pki"), second.data_dir().join("pki"));
        std::fs::create_dir_all(&to).unwrap();
        for file in std::fs::read_dir(from).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
        second
    }

    /// Kills etcd (`SIGKILL`).
    pub fn kill(&mut self) {
        self.process.take().expect("the etcd runs").kill();
    }

    /// Returns what etcd has logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("etcd.log")
    }
}
