//! The container runtime interface: all requests of the kubelet to a container engine.

#[cfg(any(test, feature = "fake"))]
pub mod contract;
pub mod docker;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod instrumented;
pub(crate) mod netns;
pub mod spec;

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::observed::{self, PodUid, Timestamp};
pub use spec::{ContainerSpec, Identity, SandboxSpec};

/// Bytes of a termination message that the status shows; `MaxContainerTerminationMessageLength` of the stock kubelet.
pub const TERMINATION_MESSAGE_BYTES: u64 = 4096;

/// Error of the engine, classified by what the caller can do.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The engine cannot be reached or timed out; the caller retries.
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
    /// The engine rejected the request; repeating it unchanged does not help.
    #[error("the container engine refused to {operation}: {message}")]
    Refused {
        operation: &'static str,
        /// Message of the engine.
        message: String,
        /// The cause, as far as a caller acts on it.
        cause: Refusal,
    },
    /// The container exists but has no network; the caller retries.
    #[error("the pod has no network: {0}")]
    Network(String),
}

impl Error {
    /// A rejection whose cause no caller acts on.
    pub fn refused(operation: &'static str, message: impl Into<String>) -> Self {
        Self::Refused { operation, message: message.into(), cause: Refusal::Other }
    }
}

/// Why the engine rejected a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The state of a container forbids it: its name is in use, it is not running, or its removal is in progress.
    Conflict,
    /// The registry wants other credentials.
    AccessDenied,
    /// A negative `oom_score_adj`.
    OomScore,
    Capabilities,
    /// The container's first process died early. A negative `oom_score_adj` is one cause; lack of memory or processes is another.
    ChildDied,
    /// Anything else.
    Other,
}

/// A container in a list, before its inspection.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Engine id.
    pub id: String,
    /// Identity from the labels.
    pub identity: Identity,
    pub running: bool,
    /// State in the engine's terms (`created`, `running`, `exited`, ...).
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

/// A container of this node changed. The caller inspects the container to learn how.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Engine id.
    pub id: String,
    /// UID of the pod, from the labels.
    pub uid: PodUid,
    /// Whether the container was removed.
    pub removed: bool,
}

/// An image of the engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Image {
    /// Image id, `sha256:...`.
    pub id: String,
    /// `name@sha256:...` if it was pulled from a registry.
    pub repo_digest: Option<String>,
    /// All names of the image.
    pub tags: Vec<String>,
    /// User of the image: empty for root, otherwise `user[:group]`, by name or number.
    pub user: String,
    /// Size on disk.
    pub size_bytes: u64,
}

/// Progress message of a pull.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullStep {
    /// Layer id, tag, or empty.
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
    /// Registry token, instead of user name and password.
    pub identity_token: String,
    /// Registry address as in the configuration.
    pub server: String,
}

/// Result of a command in a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecOutput {
    /// Exit code; `None` after a timeout.
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
    /// Follow the log as the container writes.
    pub follow: bool,
    /// Only this many last lines.
    pub tail: Option<u64>,
    /// Only lines written since this time.
    pub since: Option<Timestamp>,
    /// Only lines written until this time; not together with `follow`.
    pub until: Option<Timestamp>,
    /// Prefix each line with its RFC 3339 time.
    pub timestamps: bool,
}

/// An interactive command.
#[derive(Clone, Debug, Default)]
pub struct ExecRequest {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Attach standard input.
    pub stdin: bool,
    /// Allocate a terminal.
    pub tty: bool,
}

/// A running interactive command.
pub struct ExecSession {
    /// Engine id of the session, for [`Runtime::exec_resize`] and [`Runtime::exec_exit_code`].
    pub id: String,
    pub output: BoxStream<'static, Result<(Stream, Bytes), Error>>,
    /// Its standard input, closed when dropped.
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
    /// `cgroupfs` or `systemd`.
    pub cgroup_driver: String,
    /// 1 or 2.
    pub cgroup_version: u8,
    /// Number of CPUs.
    pub cpus: u32,
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Name of the operating system.
    pub os: String,
    /// Whether the engine runs without root.
    pub rootless: bool,
    /// Data directory of the engine.
    pub data_root: String,
    /// Enabled security options (`seccomp`, `apparmor`, `selinux`, ...).
    pub security: Vec<String>,
}

/// Features that were removed from a container because the engine refuses them, such as `oom_score_adj -997`.
pub type OmittedParts = Vec<String>;

/// Result of a start.
#[derive(Clone, Debug, PartialEq)]
pub struct Started {
    /// The running container. Its id differs from the requested one if it was recreated without a refused feature, under the
    /// same name.
    pub seen: Inspected,
    /// Features omitted now or at creation; also recorded in its labels.
    pub omitted: OmittedParts,
}

/// A container engine. Unless stated otherwise, a method is one request with a timeout, and it is idempotent.
#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// Facts about the engine.
    async fn info(&self) -> Result<Info, Error>;

    /// All containers of this node, selected by label; the kubelet never touches others.
    async fn list(&self) -> Result<Vec<Listed>, Error>;

    /// Inspects a container, with the termination message of an exited one.
    async fn inspect(&self, id: &str) -> Result<Inspected, Error>;

    /// Subscribes to changes of this node's containers, except creations. The stream ends when the engine fails.
    async fn events(&self) -> Result<BoxStream<'static, Result<Event, Error>>, Error>;

    /// Creates a sandbox; returns the existing one of that name.
    async fn create_sandbox(&self, spec: &SandboxSpec) -> Result<observed::Sandbox, Error>;

    /// Creates a container that joins its sandbox; returns the existing one of that name.
    async fn create_container(&self, spec: &ContainerSpec) -> Result<observed::Container, Error>;

    /// Starts a sandbox or container and inspects it; a running one is not an error. After a refused start the container stays,
    /// and its inspection has the reason.
    async fn start(&self, id: &str) -> Result<Started, Error>;

    /// Sends a signal (`SIGTERM`, `SIGKILL`, ...); an exited container is not an error.
    async fn signal(&self, id: &str, signal: &str) -> Result<(), Error>;

    /// Waits until it has exited; `Ok(false)` after the timeout.
    async fn wait(&self, id: &str, at_most: Duration) -> Result<bool, Error>;

    /// Kills and removes it with its writable layer; a missing one is not an error.
    async fn remove(&self, id: &str) -> Result<(), Error>;

    /// Runs a command to its end and keeps the first `limit` bytes of output. The timeout starts when the engine has started
    /// the command, which distinguishes a slow command from an unresponsive engine.
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

    /// Exit code of an interactive command; `None` while it runs.
    async fn exec_exit_code(&self, session: &str) -> Result<Option<i32>, Error>;

    /// Attaches to the streams of the container's main process.
    async fn attach(&self, id: &str, stdin: bool) -> Result<ExecSession, Error>;

    /// Sets the terminal size of the container's main process.
    async fn attach_resize(&self, id: &str, width: u16, height: u16) -> Result<(), Error>;

    /// Connects to a port on the pod's loopback interface, in its running sandbox. Takes several requests.
    async fn dial(&self, pod: &PodUid, port: u16) -> Result<Box<dyn Duplex>, Error>;

    /// Reads the container's log.
    async fn logs(
        &self,
        id: &str,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<(Stream, Bytes), Error>>, Error>;

    /// The image of that name; `None` if the engine does not have it.
    async fn image(&self, name: &str) -> Result<Option<Image>, Error>;

    /// Pulls an image; the stream reports progress and ends at the first error. Dropping it aborts the pull.
    async fn pull(
        &self,
        name: &str,
        credentials: Option<&Credentials>,
    ) -> Result<BoxStream<'static, Result<PullStep, Error>>, Error>;
}

/// Labels of the kubelet's containers, from which it reads their identity.
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
    /// Node whose kubelet created it.
    pub const NODE: &str = "io.kubernetes.node.name";
    /// Restart back-off in milliseconds if this attempt ends.
    pub const BACK_OFF: &str = "io.coracle.container.back-off-ms";
    /// Engine id of its sandbox.
    pub const SANDBOX: &str = "io.coracle.sandbox.id";
    /// The image as the manifest names it.
    pub const IMAGE: &str = "io.coracle.container.image";
    /// `terminationMessagePolicy`.
    pub const TERMINATION_POLICY: &str = "io.coracle.container.termination-message-policy";
    /// Host path of the termination message file.
    pub const TERMINATION_FILE: &str = "io.coracle.container.termination-message-file";
    /// Features omitted because the engine refuses them, one per line.
    pub const OMITTED_PARTS: &str = "io.coracle.container.done-without";
    /// Value of [`CONTAINER_NAME`] for a sandbox.
    pub const SANDBOX_NAME: &str = "POD";
}

/// Labels or annotations.
pub type Labels = BTreeMap<String, String>;
