//! A master for one test: a folder, a port, and clients that trust only its CA.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;

use ::master::kubeconfig::Kubeconfig;
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;

use crate::process::{self, Process};
use crate::{Clock, DEADLINE, Host, Output, Port, binary, free_port, installed, wait_until};

/// A master under test. Dropping it stops the process and removes its files.
#[derive(Debug)]
pub struct Master {
    /// Port of the API.
    pub port: Port,
    folder: TempDir,
    flags: Vec<String>,
    /// The host where the master runs, and the address that clients use. `None` if the master runs in the test's
    /// host.
    place: Option<(Arc<Host>, String)>,
    /// Fake clock of the master, if any.
    clock: Option<Clock>,
    process: Option<Process>,
}

impl Master {
    /// Creates a master with an empty directory, without starting it.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("co").tempdir_in("/tmp").unwrap();
        Self { port: free_port(), folder, flags: Vec::new(), place: None, clock: None, process: None }
    }

    /// Starts a master and waits until it is ready.
    pub async fn running() -> Self {
        let mut master = Self::new();
        master.start().await;
        master
    }

    /// Starts a master without controllers of workloads. The test plays them.
    ///
    /// Nodes need no heartbeats for an hour.
    pub async fn without_workloads() -> Self {
        Self::without_workloads_and(&[]).await
    }

    /// Does the same, and leaves out more controllers, each given as `-NAME`.
    pub async fn without_workloads_and(more: &[&str]) -> Self {
        let controllers = [
            "*",
            "-cronjob-controller",
            "-daemonset-controller",
            "-deployment-controller",
            "-horizontal-pod-autoscaler-controller",
            "-job-controller",
            "-replicaset-controller",
            "-replicationcontroller-controller",
            "-statefulset-controller",
        ];
        let controllers = [&controllers[..], more].concat().join(",");
        let mut master =
            Self::new().with_flags(["--controllers", &controllers, "--node-monitor-grace-period=1h"]);
        master.start().await;
        master
    }

    /// Adds flags, effective from the next start.
    pub fn with_flags<S: Into<String>>(mut self, flags: impl IntoIterator<Item = S>) -> Self {
        self.flags = flags.into_iter().map(Into::into).collect();
        self
    }

    /// Runs the master on the given host from the next start. Clients use the given address.
    pub fn on(mut self, host: Arc<Host>, address: &str) -> Self {
        self.place = Some((host, address.to_owned()));
        self
    }

    /// Uses the given fake clock from the next start.
    pub fn by_clock(mut self, clock: &Clock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// Process ID of the master.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("the master runs").id()
    }

    /// Creates an HTTP client with the administrator's certificate.
    pub fn client(&self) -> reqwest::Client {
        client(&self.admin().unwrap()).unwrap()
    }

    /// Data directory of the master.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("master")
    }

    /// Reads a file of the data directory as text.
    pub fn file(&self, name: &str) -> String {
        let path = self.data_dir().join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Starts the master and waits until it is ready.
    pub async fn start(&mut self) {
        self.launch();
        let look = async || match self.admin().and_then(|admin| client(&admin)) {
            Ok(client) => self.send_request(&client, "/readyz").await.map(|_| ()),
            Err(error) => Err(error),
        };
        let ready = wait_until(DEADLINE, look).await;
        ready.unwrap_or_else(|seen| panic!("the master is not ready: {seen}\n{}", self.log()));
    }

    /// Starts the master without waiting.
    pub fn launch(&mut self) {
        assert!(self.process.is_none(), "this master already runs");
        let mut command = match &self.place {
            Some((host, _)) => host.command(binary("master")),
            None => Command::new(binary("master")),
        };
        command.arg("--data-dir").arg(self.data_dir()).args(["--secure-port", &self.port.to_string()]);
        // Most tests assign pods to nodes themselves, so the scheduler is off by default. The last occurrence of a flag
        // counts.
        command.arg("--scheduler=false").args(&self.flags);
        command.envs(self.clock.iter().flat_map(Clock::environment));
        self.process = Some(Process::start(&mut command, &self.log_path()));
    }

    /// Sends a signal to the master and waits for its exit status.
    pub async fn stop(&mut self, signal: Signal) -> ExitStatus {
        self.process.as_ref().expect("the master runs").signal(signal);
        self.ended().await
    }

    /// Waits until the master exits by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        let mut process = self.process.take().expect("the master runs");
        let look = async || process.ended().ok_or_else(|| "it still runs".to_owned());
        wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{seen}\n{}", self.log()))
    }

    /// Kills the master (`SIGKILL`).
    pub fn kill(&mut self) {
        self.process.take().expect("the master runs").kill();
    }

    /// Returns what the master has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("master.log")
    }

    /// Reads `admin.kubeconfig`.
    ///
    /// # Errors
    /// If the file does not exist yet.
    pub fn admin(&self) -> Result<Kubeconfig, String> {
        let path = self.data_dir().join("admin.kubeconfig");
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        Kubeconfig::read(&text).ok_or_else(|| format!("no kubeconfig: {text}"))
    }

    /// Creates a kubeconfig with a certificate for a user in these groups.
    pub async fn user(&self, name: &str, groups: &[&str]) -> PathBuf {
        let mut arguments = vec!["kubeconfig", "--user", name];
        groups.iter().for_each(|group| arguments.extend(["--group", group]));
        let path = self.data_dir().join(format!("{name}.kubeconfig"));
        fs::write(&path, self.verb(&arguments).await.stdout).unwrap();
        path
    }

    pub fn url(&self, path: &str) -> String {
        let address = self.place.as_ref().map_or("127.0.0.1", |(_, address)| address);
        format!("https://{address}:{}{path}", self.port)
    }

    /// Sends a GET request. Returns the status code and the body.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn send_request(&self, client: &reqwest::Client, path: &str) -> Result<(u16, String), String> {
        let url = self.url(path);
        let response = client.get(url).send().await.map_err(|error| format!("{error:?}"))?;
        let code = response.status().as_u16();
        Ok((code, response.text().await.map_err(|error| format!("{error:?}"))?))
    }

    /// Sends a GET request as administrator. Returns the status code and the body.
    pub async fn get_as_admin(&self, path: &str) -> (u16, String) {
        self.send_request(&client(&self.admin().unwrap()).unwrap(), path).await.unwrap()
    }

    /// Waits until a path exists, such as that of an object that a controller creates.
    pub async fn until_found(&self, path: &str) {
        let client = self.client();
        let look = async || match self.send_request(&client, path).await? {
            (200, _) => Ok(()),
            (code, answer) => Err(format!("{code} {answer}")),
        };
        wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{path}: {seen}\n{}", self.log()));
    }

    /// Waits for the default service account of a namespace. The API server rejects a pod if the account does not
    /// appear within two seconds.
    pub async fn until_account(&self, namespace: &str) {
        self.until_found(&format!("/api/v1/namespaces/{namespace}/serviceaccounts/default")).await;
    }

    /// Returns the join string for machines of this host.
    pub async fn join_line(&self) -> String {
        let printed = self.verb(&["join-string"]).await;
        let (_, hash) = printed.stdout.trim_end().split_once('#').unwrap_or_else(|| panic!("{printed:?}"));
        format!("https://127.0.0.1:{}#{hash}", self.port)
    }

    /// Runs a subcommand of `master` on the data directory.
    pub async fn verb(&self, arguments: &[&str]) -> Output {
        let mut command = tokio::process::Command::new(binary("master"));
        command.arg("--data-dir").arg(self.data_dir()).args(arguments);
        self.output(command).await
    }

    /// Runs a real kubectl with the given kubeconfig and a separate home directory.
    pub async fn kubectl(&self, kubeconfig: &Path, arguments: &[&str]) -> Output {
        self.kubectl_at(&installed("kubernetes-client", "kubectl"), kubeconfig, arguments).await
    }

    /// Runs the given kubectl with a separate home directory.
    pub async fn kubectl_at(&self, kubectl: &Path, kubeconfig: &Path, arguments: &[&str]) -> Output {
        let mut command = tokio::process::Command::new(kubectl);
        command.env("HOME", self.home_of(kubectl)).arg("--kubeconfig").arg(kubeconfig).args(arguments);
        self.output(command).await
    }

    /// Returns the home directory of a kubectl version. The versions must not share the cache in it.
    fn home_of(&self, kubectl: &Path) -> PathBuf {
        let home = self.folder.path().join(kubectl.file_name().unwrap_or_default());
        fs::create_dir_all(&home).unwrap();
        home
    }

    async fn output(&self, command: tokio::process::Command) -> Output {
        let ended = process::output(command, DEADLINE).await;
        ended.unwrap_or_else(|why| panic!("{why}\n{}", self.log()))
    }
}

impl Default for Master {
    fn default() -> Self {
        Self::new()
    }
}

/// Creates a client with the CA and the client certificate of a kubeconfig.
fn client(kubeconfig: &Kubeconfig) -> Result<reqwest::Client, String> {
    trusting(&kubeconfig.authority, Some((&kubeconfig.credentials.certificates, &kubeconfig.credentials.key)))
}

/// Creates a client that trusts one CA and optionally has a client certificate, all PEM.
///
/// # Errors
/// If a certificate or the key cannot be parsed.
pub fn trusting(authority: &str, own: Option<(&str, &str)>) -> Result<reqwest::Client, String> {
    let config = tls_config(authority, own)?;
    reqwest::Client::builder().tls_backend_preconfigured(config).build().map_err(|error| error.to_string())
}

/// Returns the TLS configuration of such a client.
///
/// # Errors
/// The same as [`trusting`].
pub fn tls_config(authority: &str, own: Option<(&str, &str)>) -> Result<rustls::ClientConfig, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut roots = rustls::RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(root.map_err(|error| text(&error))?).map_err(|error| text(&error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| text(&error))?
        .with_root_certificates(roots);
    match own {
        None => Ok(builder.with_no_client_auth()),
        Some((certificates, key)) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates.as_bytes()).collect();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| text(&error))?;
            let chain = chain.map_err(|error| text(&error))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| text(&error))
        }
    }
}
