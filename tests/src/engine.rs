//! The Docker engine as a test sees it: finds the containers of one node by their labels.

use std::collections::HashMap;
use std::path::Path;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::exec::StartExecResults;
use bollard::models::{ContainerInspectResponse, ExecConfig};
use bollard::query_parameters::{
    ListContainersOptionsBuilder, LogsOptionsBuilder, RemoveContainerOptionsBuilder,
};
use futures_util::{Stream, StreamExt};

use crate::network;

/// The image of every test pod; `hack/setup.sh test` builds it.
pub const IMAGE: &str = "coracle/busybox:1";

/// Request timeout for a private engine, which a test may freeze.
const CLIENT_SECONDS: u64 = 20;

const NODE_LABEL: &str = "io.kubernetes.node.name";

/// Client of the engine at `DOCKER_HOST` or the default socket, or of a private engine.
#[derive(Clone, Debug)]
pub struct Engine {
    docker: Docker,
    address: String,
}

/// A container in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Docker ID of the container.
    pub id: String,
    /// Label `io.kubernetes.pod.name`.
    pub pod: String,
    /// Label `io.kubernetes.container.name`, `POD` for a sandbox.
    pub name: String,
    /// Label `io.kubernetes.container.attempt`.
    pub attempt: u32,
    /// `running`, `exited` and so on.
    pub state: String,
    /// Command line of the container.
    pub command: String,
    pub labels: HashMap<String, String>,
    /// Docker name without the leading slash.
    pub engine_name: String,
}

impl Container {
    /// Whether the container is the sandbox of a pod.
    pub fn is_sandbox(&self) -> bool {
        self.name == "POD"
    }

    /// Whether the container runs.
    pub fn is_running(&self) -> bool {
        self.state == "running"
    }
}

impl Engine {
    /// Connects to the engine. Panics if no engine answers, because a test without an engine must not pass.
    pub async fn connect() -> Self {
        let docker = Docker::connect_with_defaults().unwrap().negotiate_version().await;
        let docker = docker
            .unwrap_or_else(|error| panic!("no Docker engine answers ({error}): run hack/setup.sh test"));
        docker
            .inspect_image(IMAGE)
            .await
            .unwrap_or_else(|error| panic!("{IMAGE}: {error}: run hack/setup.sh test"));
        Self { docker, address: Self::endpoint() }
    }

    /// Creates a client of the engine at the given socket. Sends no request yet.
    pub fn at(socket: &Path) -> Self {
        let path = socket.to_str().unwrap();
        let docker = Docker::connect_with_unix(path, CLIENT_SECONDS, bollard::API_DEFAULT_VERSION).unwrap();
        Self { docker, address: format!("unix://{path}") }
    }

    /// Creates another client of the same engine, for another runtime. Connections belong to the runtime that
    /// opened them.
    pub fn again(&self) -> Self {
        match self.address.strip_prefix("unix://") {
            Some(path) => Self::at(Path::new(path)),
            None => Self { docker: Docker::connect_with_defaults().unwrap(), address: self.address.clone() },
        }
    }

    /// The endpoint of this engine.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The endpoint of the engine that all tests share, for `--docker-endpoint`.
    pub fn endpoint() -> String {
        std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned())
    }

    /// The Bollard client, for requests without a method here.
    pub fn docker(&self) -> &Docker {
        &self.docker
    }

    /// Lists all containers with the given node label, whether they run or not. Orders them by pod, name and
    /// attempt.
    pub async fn containers(&self, node: &str) -> Vec<Container> {
        self.list(&format!("{NODE_LABEL}={node}")).await.unwrap()
    }

    async fn list(&self, label: &str) -> Result<Vec<Container>, bollard::errors::Error> {
        let filters = HashMap::from([("label", vec![label])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let list = self.docker.list_containers(Some(options)).await?;
        let mut containers: Vec<Container> = list
            .into_iter()
            .map(|summary| {
                let labels = summary.labels.unwrap_or_default();
                let label =
                    |name: &str| labels.get(&format!("io.kubernetes.{name}")).cloned().unwrap_or_default();
                Container {
                    id: summary.id.unwrap(),
                    pod: label("pod.name"),
                    name: label("container.name"),
                    attempt: label("container.attempt").parse().unwrap_or(0),
                    state: summary.state.map(|state| state.to_string()).unwrap_or_default(),
                    command: summary.command.unwrap_or_default(),
                    engine_name: summary
                        .names
                        .unwrap_or_default()
                        .join(",")
                        .trim_start_matches('/')
                        .to_owned(),
                    labels,
                }
            })
            .collect();
        containers.sort_by(|a, b| (&a.pod, &a.name, a.attempt).cmp(&(&b.pod, &b.name, b.attempt)));
        Ok(containers)
    }

    /// Inspects a container.
    ///
    /// # Errors
    /// If the container does not exist or is being removed.
    pub async fn inspect(&self, id: &str) -> Result<ContainerInspectResponse, String> {
        self.docker.inspect_container(id, None).await.map_err(|error| error.to_string())
    }

    /// Returns what a container has logged so far, stdout and stderr in order.
    ///
    /// # Errors
    /// If the engine has no such container.
    pub async fn logs(&self, id: &str) -> Result<String, String> {
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).build();
        text(self.docker.logs(id, Some(options))).await
    }

    /// Runs a command in a container. Returns its output and exit code.
    pub async fn exec(&self, id: &str, command: &[&str]) -> (String, i64) {
        let config = ExecConfig {
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(command.iter().map(|part| (*part).to_owned()).collect()),
            ..ExecConfig::default()
        };
        let exec = self.docker.create_exec(id, config).await.unwrap().id;
        let StartExecResults::Attached { output, .. } = self.docker.start_exec(&exec, None).await.unwrap()
        else {
            panic!("the engine did not attach to the command it ran");
        };
        let written = text(output).await.unwrap();
        let code = self.docker.inspect_exec(&exec).await.unwrap().exit_code.unwrap_or(-1);
        (written, code)
    }

    /// Removes all containers of a node by force. Does nothing if the engine does not answer.
    pub async fn remove_all(&self, node: &str) {
        let listed = self.list(&format!("{NODE_LABEL}={node}")).await;
        // Remove containers before the sandbox whose network they share.
        let mut containers = listed.unwrap_or_default();
        containers.sort_by_key(Container::is_sandbox);
        for container in containers {
            let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
            // Ignore the error: another process may have removed the container.
            let _ = self.docker.remove_container(&container.id, Some(options)).await;
        }
    }

    /// Removes the containers that killed test processes left behind.
    ///
    /// The nodes of tests are called `test-<pid>-<name>`, so the PID shows whether the test still runs.
    pub async fn sweep(&self) {
        for container in self.list(NODE_LABEL).await.unwrap() {
            let node = &container.labels[NODE_LABEL];
            if is_orphaned(node) {
                self.remove_all(node).await;
            }
        }
        network::sweep(is_orphaned);
    }
}

/// Whether the node belongs to a test process that has ended.
fn is_orphaned(node: &str) -> bool {
    let pid = node.strip_prefix("test-").and_then(|rest| rest.split('-').next());
    pid.is_some_and(|pid| !std::path::Path::new("/proc").join(pid).exists())
}

/// Collects an output stream of the engine, or returns the error that ended it.
async fn text<E: std::fmt::Display>(
    stream: impl Stream<Item = Result<LogOutput, E>>,
) -> Result<String, String> {
    let mut stream = std::pin::pin!(stream);
    let mut text = String::new();
    while let Some(piece) = stream.next().await {
        text.push_str(&piece.map_err(|error| error.to_string())?.to_string());
    }
    Ok(text)
}
