//! Machines of a bed that host the cluster's master: the first machine runs the master from a manifest, and others
//! join it.

use std::path::{Path, PathBuf};
use std::{env, fs};

use master::kubeconfig::Kubeconfig;
use serde_json::Value;

use super::Machine;
use crate::master::trusting;
use crate::{Output, installed, process};

/// Port on which masters listen.
const PORT: u16 = 6443;
/// Base directory of persistent data in the manifests. Machines of a bed share the file system, so each machine
/// replaces it with its own path.
const KEPT: &str = "/var/lib/";

/// Reads a manifest from the repository.
pub fn manifest(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("manifests").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl Machine {
    /// Data directory of the master on this machine.
    pub fn master_dir(&self) -> PathBuf {
        self.disk().join("master")
    }

    /// Adapts a manifest to this machine: sets the tag of the master's image, and puts the data on the machine's
    /// own disk.
    pub fn own_manifest(&self, text: &str, tag: &str) -> String {
        let place = format!("hostPath: {{path: {}/", self.disk().display());
        let own = text.replace(&format!("hostPath: {{path: {KEPT}"), &place);
        let named = own.lines().map(|line| match line.split_once("image: coracle/master:") {
            Some((before, _)) => format!("{before}image: coracle/master:{tag}\n"),
            None => format!("{line}\n"),
        });
        named.collect()
    }

    /// Starts the kubelet with the bootstrap kubeconfig that a master on this machine writes once it runs.
    pub async fn found(&mut self, flags: &[&str]) {
        let boot = self.master_dir().join("bootstrap.kubeconfig").display().to_string();
        let own = ["--bootstrap-kubeconfig", &boot, "--pod-network", "native"];
        self.node.set_flags(own.iter().chain(flags).copied());
        self.node.start().await;
    }

    /// Starts the kubelet with a join string.
    pub async fn join_by(&mut self, line: &str) {
        self.node.set_flags(["--bootstrap", line, "--pod-network", "native"]);
        self.node.start().await;
    }

    /// Runs `master join-string` in the master's container.
    ///
    /// # Errors
    /// If the command fails, for example because the master is not ready.
    pub async fn join_string(&self) -> Result<String, String> {
        let master = self.node.container("master", "master").await?;
        let verb = ["/master", "--data-dir", "/var/lib/master", "join-string"];
        let (printed, code) = self.engine.engine().exec(&master.id, &verb).await;
        if code == 0 { Ok(printed.trim_end().to_owned()) } else { Err(printed) }
    }

    /// Sends a GET request to the machine's master as its administrator.
    ///
    /// # Errors
    /// If the master does not answer, or answers with an error status.
    pub async fn get_json(&self, path: &str) -> Result<Value, String> {
        let Kubeconfig { authority, credentials, .. } = self.administrator()?;
        let client = trusting(&authority, Some((&credentials.certificates, &credentials.key)))?;
        let url = format!("https://{}:{PORT}{path}", self.address);
        let response = client.get(url).send().await.map_err(|error| format!("{error:?}"))?;
        let code = response.status();
        let text = response.text().await.map_err(|error| error.to_string())?;
        if !code.is_success() {
            return Err(format!("{code} {text}"));
        }
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }

    fn administrator(&self) -> Result<Kubeconfig, String> {
        let path = self.master_dir().join("admin.kubeconfig");
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        Kubeconfig::read(&text).ok_or_else(|| format!("no kubeconfig: {text}"))
    }

    /// Runs kubectl on the machine as administrator of its master.
    pub async fn kubectl(&self, arguments: &[&str]) -> Output {
        let mut command = self.host().command(installed("kubernetes-client", "kubectl"));
        command.env("HOME", self.disk());
        command.arg("--kubeconfig").arg(self.master_dir().join("admin.kubeconfig")).args(arguments);
        process::output(command.into(), crate::DEADLINE).await.unwrap()
    }
}
