//! The container runtime interface: all requests that the kubelet sends to a container engine.

#[cfg(any(test, feature = "fake"))]
pub mod contract;
pub mod docker;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod instrumented;
pub(crate) mod netns;
pub mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::observed::{self, PodUid, Timestamp};
pub use spec::{ContainerSpec, Identity, SandboxSpec};

/// Maximum size of a termination message in the status, in bytes; `MaxContainerTerminationMessageLength` of the
/// stock kubelet.
pub const TERMINATION_MESSAGE_BYTES: u64 = 4096;

/// An error of the engine, classified by what the caller can do.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The engine cannot be reached or did not answer in time. The caller retries.
    #[error("the container engine does not answer ({operation}): {message}")]
    Unreachable {
        operation: &'static str,
        /// The transport error.
        message: String,
    },
    /// The container, image or session does not exist.
    #[error("{what} does not exist")]
    NotFound {
        /// The container, image or exec session.
        what: String,
    },
    /// The engine rejected the request. It does not help to repeat the request unchanged.
    #[error("the container engine refused to {operation}: {message}")]
    Refused {
        operation: &'static str,
        /// Message of the engine.
        message: String,
        /// The cause, if a caller acts on it.
        cause: Refusal,
    },
    /// The container exists but has no network. The caller retries.
    #[error("the pod has no network: {0}")]
    Network(String),
}

impl Error {
    /// Creates a rejection with a cause on which no caller acts.
    pub fn refused(operation: &'static str, message: impl Into<String>) -> Self {
        Self::Refused { operation, message: message.into(), cause: Refusal::Other }
    }
}

/// The reason why the engine rejected a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The state of a container forbids the request: its name is in use, it is not running, or its removal is in
    /// progress.
    Conflict,
    /// The registry requires other credentials.
    AccessDenied,
    /// The engine refuses a negative `oom_score_adj`.
    OomScore,
    Capabilities,
    /// The container's first process died early. A negative `oom_score_adj` is one cause; lack of memory or
    /// processes is another.
    ChildDied,
    /// Any other reason.
    Other,
}

/// A container in a list, which was not inspected yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Engine id.
    pub id: String,
    /// Pod, container name and attempt, as the labels store them.
    pub identity: Identity,
    pub running: bool,
    /// The state in the engine's terms (`created`, `running`, `exited`, ...).
    pub state: String,
}

/// Result of an inspection.
#[derive(Clone, Debug, PartialEq)]
pub enum Inspected {
    /// A pod's sandbox.
    Sandbox(Identity, observed::Sandbox),
    /// A container of a pod.
    Container(Identity, observed::Container),
}

/// A change of a container of this node. The caller inspects the container to find out what changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Engine id.
    pub id: String,
    /// UID of the pod, as the labels store it.
    pub uid: PodUid,
    /// Whether the container was removed.
    pub removed: bool,
}

/// An image of the engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Image {
    /// The image id, `sha256:...`.
    pub id: String,
    /// The digest `name@sha256:...`, if the image was pulled from a registry.
    pub repo_digest: Option<String>,
    /// All names of the image.
    pub tags: Vec<String>,
    /// User of the image: empty for root, otherwise `user[:group]`, by name or number.
    pub user: String,
    /// Size on disk in bytes.
    pub size_bytes: u64,
}

/// Where the writable layer and the log of a container are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerStorage {
    /// Directory of the writable layer on this machine, if the storage driver has one.
    pub layer: Option<PathBuf>,
    /// Size of the writable layer in bytes, as the engine measured it. `None` if it has a directory.
    pub layer_bytes: Option<u64>,
    /// The newest log file. Rotated files have the same path with a suffix.
    pub log: Option<PathBuf>,
}

/// Progress message of a pull.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullStep {
    /// The layer id or the tag; may be empty.
    pub layer: String,
    /// Status text (`Downloading`, `Pull complete`, ...).
    pub status: String,
    pub done_bytes: Option<u64>,
    pub total_bytes: Option<u64>,
}

/// Registry credentials.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Credentials {
    /// User name.
    pub username: String,
    pub password: String,
    /// Registry token; used instead of user name and password.
    pub identity_token: String,
    /// Registry address as the configuration has it.
    pub server: String,
}

/// Result of a command in a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecOutput {
    /// Exit code, or `None` after a timeout.
    pub exit_code: Option<i32>,
    /// Standard output and error in order, truncated to the limit.
    pub output: Vec<u8>,
}

/// Output stream of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Options for reading a log.
#[derive(Clone, Debug, Default)]
pub struct LogOptions {
    /// Whether to follow the log as the container writes.
    pub follow: bool,
    /// Maximum number of lines, counted from the end.
    pub tail: Option<u64>,
    /// Return only lines written since this time.
    pub since: Option<Timestamp>,
    /// Return only lines written until this time. It cannot be combined with `follow`.
    pub until: Option<Timestamp>,
    /// Whether to prefix each line with its RFC 3339 time.
    pub timestamps: bool,
}

/// An interactive command.
#[derive(Clone, Debug, Default)]
pub struct ExecRequest {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Whether to attach standard input.
    pub stdin: bool,
    /// Whether to allocate a terminal.
    pub tty: bool,
}

/// A running interactive command.
pub struct ExecSession {
    /// Engine id of the session, for [`Runtime::exec_resize`] and [`Runtime::exec_exit_code`].
    pub id: String,
    pub output: BoxStream<'static, Result<(Stream, Bytes), Error>>,
    /// Standard input of the command. Dropping it closes the input.
    pub input: std::pin::Pin<Box<dyn AsyncWrite + Send>>,
}

/// A bidirectional byte stream.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Facts about the engine and its host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Info {
    /// Engine version.
    pub version: String,
    /// Negotiated API version.
    pub api_version: String,
    /// The cgroup driver: `cgroupfs` or `systemd`.
    pub cgroup_driver: String,
    /// The cgroup version: 1 or 2.
    pub cgroup_version: u8,
    /// Number of CPUs.
    pub cpus: u32,
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// The name of the operating system.
    pub os: String,
    /// Whether the engine runs without root.
    pub rootless: bool,
    /// Data directory of the engine.
    pub data_root: String,
    /// The enabled security options (`seccomp`, `apparmor`, `selinux`, ...).
    pub security: Vec<String>,
}

/// Features that were removed from a container because the engine refuses them, such as `oom_score_adj -997`.
pub type OmittedParts = Vec<String>;

/// Result of a start.
#[derive(Clone, Debug, PartialEq)]
pub struct Started {
    /// The running container. If it was recreated without a refused feature, it has the same name but another id.
    pub seen: Inspected,
    /// Features that were omitted now or at creation. The labels of the container record them too.
    pub omitted: OmittedParts,
}

/// A container engine. Unless stated otherwise, a method is one request with a timeout, and it is idempotent.
#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// Facts about the engine.
    async fn info(&self) -> Result<Info, Error>;

    /// All containers of this node, selected by label. The kubelet never changes other containers.
    async fn list(&self) -> Result<Vec<Listed>, Error>;

    /// Inspects a container. If it has exited, the result includes the termination message.
    async fn inspect(&self, id: &str) -> Result<Inspected, Error>;

    /// Subscribes to changes of this node's containers, except creations. The stream ends if the engine fails.
    async fn events(&self) -> Result<BoxStream<'static, Result<Event, Error>>, Error>;

    /// Creates a sandbox. If one of the same name exists, returns that.
    async fn create_sandbox(&self, spec: &SandboxSpec) -> Result<observed::Sandbox, Error>;

    /// Creates a container that joins its sandbox. If one of the same name exists, returns that.
    async fn create_container(&self, spec: &ContainerSpec) -> Result<observed::Container, Error>;

    /// Starts a sandbox or container and inspects it. It may already be running. After a refused start the
    /// container stays, and its inspection has the reason.
    async fn start(&self, id: &str) -> Result<Started, Error>;

    /// Sends a signal (`SIGTERM`, `SIGKILL`, ...). It is not an error if the container has exited.
    async fn signal(&self, id: &str, signal: &str) -> Result<(), Error>;

    /// Waits until a container has exited. Returns false after the timeout.
    async fn wait(&self, id: &str, at_most: Duration) -> Result<bool, Error>;

    /// Kills a container, and removes it with its writable layer. It is not an error if the container is missing.
    async fn remove(&self, id: &str) -> Result<(), Error>;

    /// Runs a command until it ends, and keeps the first `limit` bytes of its output. The timeout starts when the
    /// engine has started the command. A slow command can therefore be distinguished from an unresponsive engine.
    async fn exec(
        &self,
        id: &str,
        command: &[String],
        at_most: Duration,
        limit: usize,
    ) -> Result<ExecOutput, Error>;

    /// Starts an interactive command.
    async fn exec_start(&self, id: &str, request: &ExecRequest) -> Result<ExecSession, Error>;

    /// Sets the terminal size of a command.
    async fn exec_resize(&self, session: &str, width: u16, height: u16) -> Result<(), Error>;

    /// The exit code of an interactive command, or `None` while it runs.
    async fn exec_exit_code(&self, session: &str) -> Result<Option<i32>, Error>;

    /// Attaches to the streams of the container's main process.
    async fn attach(&self, id: &str, stdin: bool) -> Result<ExecSession, Error>;

    /// Sets the terminal size of the container's main process.
    async fn attach_resize(&self, id: &str, width: u16, height: u16) -> Result<(), Error>;

    /// Connects to a port on the pod's loopback interface, in its running sandbox. This takes several requests.
    async fn dial(&self, pod: &PodUid, port: u16) -> Result<Box<dyn Duplex>, Error>;

    /// Reads the container's log.
    async fn logs(
        &self,
        id: &str,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<(Stream, Bytes), Error>>, Error>;

    /// Where the writable layer and the log of a container are, to measure their size.
    async fn storage(&self, id: &str) -> Result<ContainerStorage, Error>;

    /// All images of the engine.
    async fn images(&self) -> Result<Vec<Image>, Error>;

    /// Ids of all images from which the engine has containers, running or not. The containers may belong to other nodes,
    /// or to other users of the engine.
    async fn images_in_use(&self) -> Result<BTreeSet<String>, Error>;

    /// Removes a name of an image. The engine removes the image with its last name, unless a container uses it. It is not
    /// an error if there is no such image.
    async fn remove_image(&self, name: &str) -> Result<(), Error>;

    /// The image of this name, or `None` if the engine does not have it.
    async fn image(&self, name: &str) -> Result<Option<Image>, Error>;

    /// Pulls an image. The stream reports progress and ends at the first error. Dropping it aborts the pull.
    async fn pull(
        &self,
        name: &str,
        credentials: Option<&Credentials>,
    ) -> Result<BoxStream<'static, Result<PullStep, Error>>, Error>;
}

/// Labels of the kubelet's containers. The kubelet reads their identity from these labels.
pub mod labels {
    pub const POD_NAME: &str = "io.kubernetes.pod.name";
    pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
    pub const POD_UID: &str = "io.kubernetes.pod.uid";
    /// Container name; `POD` for the sandbox.
    pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
    /// Restart count.
    pub const ATTEMPT: &str = "io.kubernetes.container.attempt";
    /// Hash of the spec.
    pub const HASH: &str = "io.kubernetes.container.hash";
    /// The name of the node whose kubelet created the container.
    pub const NODE: &str = "io.kubernetes.node.name";
    /// Restart back-off in milliseconds if this attempt ends.
    pub const BACK_OFF: &str = "io.coracle.container.back-off-ms";
    /// Engine id of the container's sandbox.
    pub const SANDBOX: &str = "io.coracle.sandbox.id";
    /// The image as the manifest names it.
    pub const IMAGE: &str = "io.coracle.container.image";
    /// The field `terminationMessagePolicy`.
    pub const TERMINATION_POLICY: &str = "io.coracle.container.termination-message-policy";
    /// Host path of the termination message file.
    pub const TERMINATION_FILE: &str = "io.coracle.container.termination-message-file";
    /// Features that were omitted because the engine refuses them, one per line.
    pub const OMITTED_PARTS: &str = "io.coracle.container.done-without";
    /// Value of [`CONTAINER_NAME`] for a sandbox.
    pub const SANDBOX_NAME: &str = "POD";
}

/// Labels or annotations.
pub type Labels = BTreeMap<String, String>;
