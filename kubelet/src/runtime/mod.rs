//! The door to containers: what the rest of the kubelet asks of an engine, and nothing more.

#[cfg(any(test, feature = "fake"))]
pub mod contract;
pub mod docker;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod measured;
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

/// Why the engine did not do what it was asked; each says what a caller may do.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The engine cannot be reached or did not answer in time: nothing is known, try again.
    #[error("the container engine does not answer ({operation}): {message}")]
    Unreachable {
        /// What was asked.
        operation: &'static str,
        /// What the transport said.
        message: String,
    },
    /// What was named is not there (any more).
    #[error("{what} is not there")]
    NotFound {
        /// The container, image or exec session.
        what: String,
    },
    /// The engine understood and refused: trying the same again will not help.
    #[error("the container engine refused to {operation}: {message}")]
    Refused {
        /// What was asked.
        operation: &'static str,
        /// What the engine said.
        message: String,
    },
    /// The container is there and its network is not: try again.
    #[error("the pod has no network: {0}")]
    Network(String),
}

/// What `list` saw of one container, before a closer look.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Engine id.
    pub id: String,
    /// Whose it is, from the labels.
    pub identity: Identity,
    /// Whether its processes live.
    pub running: bool,
    /// The engine's word for its state (`created`, `running`, `exited`, ...).
    pub state: String,
}

/// A container as a close look saw it.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// A pod's sandbox.
    Sandbox(Identity, observed::Sandbox),
    /// A container of a pod.
    Container(Identity, observed::Container),
}

/// Something happened to a container of this node: look again.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Engine id.
    pub id: String,
    /// The pod, from the labels.
    pub uid: PodUid,
    /// True when the container is gone for good.
    pub removed: bool,
}

/// An image the engine holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Image {
    /// The engine's id, `sha256:...`.
    pub id: String,
    /// `name@sha256:...` when it came from a registry.
    pub repo_digest: Option<String>,
    /// All names of it.
    pub tags: Vec<String>,
    /// The user it runs as: empty for root, else `user[:group]`, by name or number.
    pub user: String,
    /// Size on disk.
    pub size_bytes: u64,
}

/// What the engine says of a pull under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullStep {
    /// The layer it is about, or the tag, or nothing.
    pub layer: String,
    /// What is done with it (`Downloading`, `Pull complete`, ...).
    pub status: String,
    /// How much of that is done.
    pub done_bytes: Option<u64>,
    /// How much there is to do.
    pub total_bytes: Option<u64>,
}

/// Who may pull from a registry.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Credentials {
    /// User name.
    pub username: String,
    /// Password.
    pub password: String,
    /// A token of the registry instead of the two.
    pub identity_token: String,
    /// The registry's address as the configuration names it.
    pub server: String,
}

/// What ran in a container and how it ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecOutput {
    /// Exit code; `None` when it had not ended in the time it was given.
    pub exit_code: Option<i32>,
    /// Both streams, in order, cut at the caller's limit.
    pub output: Vec<u8>,
}

/// Which stream a piece of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Which lines of a log are wanted.
#[derive(Clone, Debug, Default)]
pub struct LogOptions {
    /// Keep sending as the container writes.
    pub follow: bool,
    /// Only the last so many lines.
    pub tail: Option<u64>,
    /// Only what was written since.
    pub since: Option<Timestamp>,
    /// Each line begins with its time in RFC 3339.
    pub timestamps: bool,
}

/// How an interactive command is to run.
#[derive(Clone, Debug, Default)]
pub struct ExecRequest {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Feed it standard input.
    pub stdin: bool,
    /// Give it a terminal.
    pub tty: bool,
}

/// An interactive command under way.
pub struct ExecSession {
    /// Engine id of the session, for [`Runtime::exec_resize`] and [`Runtime::exec_exit_code`].
    pub id: String,
    /// What it writes.
    pub output: BoxStream<'static, Result<(Stream, Bytes), Error>>,
    /// Where its input goes; closed when dropped.
    pub input: std::pin::Pin<Box<dyn AsyncWrite + Send>>,
}

/// A connection: bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// What is known of the engine and its machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Info {
    /// Engine version.
    pub version: String,
    /// API version spoken.
    pub api_version: String,
    /// `cgroupfs` or `systemd`.
    pub cgroup_driver: String,
    /// 1 or 2.
    pub cgroup_version: u8,
    /// Processors.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Name of the operating system.
    pub os: String,
    /// The engine runs without root.
    pub rootless: bool,
    /// Where the engine keeps its data.
    pub data_root: String,
    /// Security options the engine has on (`seccomp`, `apparmor`, `selinux`, ...).
    pub security: Vec<String>,
}

/// What a container had to do without because this engine refuses it, one part an entry (`oom_score_adj -997`).
pub type DoneWithout = Vec<String>;

/// A container that has been started.
#[derive(Clone, Debug, PartialEq)]
pub struct Started {
    /// A close look at what runs now; its id differs from what was asked for when the engine refused a part of the
    /// container and it was made again, under the same name, without that part.
    pub seen: Seen,
    /// What it had to do without, now or when it was made; kept in its labels.
    pub without: DoneWithout,
}

/// A container engine. Every method is one request unless it says otherwise, bounded in time, and safe to repeat.
#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// What the engine is.
    async fn info(&self) -> Result<Info, Error>;

    /// All containers of this node, by label; nothing else is ever seen or touched.
    async fn list(&self) -> Result<Vec<Listed>, Error>;

    /// A close look at one container; reads its termination message when it has ended.
    async fn look(&self, id: &str) -> Result<Seen, Error>;

    /// What happens to containers of this node from now on, but for their making, which only their maker cares for;
    /// the stream ends when the engine goes away.
    async fn events(&self) -> Result<BoxStream<'static, Result<Event, Error>>, Error>;

    /// Makes a pod's sandbox; idempotent by name: one that is there already is returned.
    async fn create_sandbox(&self, spec: &SandboxSpec) -> Result<observed::Sandbox, Error>;

    /// Makes a container that joins its sandbox; idempotent by name.
    async fn create_container(&self, spec: &ContainerSpec) -> Result<observed::Container, Error>;

    /// Starts a sandbox or a container and looks at it; one that runs already is fine. A container whose start is
    /// refused stays, and a look at it tells why.
    async fn start(&self, id: &str) -> Result<Started, Error>;

    /// Sends a signal (`SIGTERM`, `SIGKILL`, ...); a container that has ended already is fine.
    async fn signal(&self, id: &str, signal: &str) -> Result<(), Error>;

    /// Waits until it no longer runs, at most so long; `Ok(false)` when it still does.
    async fn wait(&self, id: &str, at_most: Duration) -> Result<bool, Error>;

    /// Removes it with its writable layer, ending it by force; one that is gone already is fine.
    async fn remove(&self, id: &str) -> Result<(), Error>;

    /// Runs a command to its end, keeping the first `limit` bytes of output. The time begins when the engine has
    /// started it, so that a command which takes too long and an engine that does not answer are told apart.
    async fn exec(
        &self,
        id: &str,
        command: &[String],
        at_most: Duration,
        limit: usize,
    ) -> Result<ExecOutput, Error>;

    /// Starts an interactive command.
    async fn exec_start(&self, id: &str, request: &ExecRequest) -> Result<ExecSession, Error>;

    /// Tells the command's terminal its size.
    async fn exec_resize(&self, session: &str, width: u16, height: u16) -> Result<(), Error>;

    /// The exit code of an interactive command, `None` while it runs.
    async fn exec_exit_code(&self, session: &str) -> Result<Option<i32>, Error>;

    /// Attaches to the container's own streams.
    async fn attach(&self, id: &str, stdin: bool) -> Result<ExecSession, Error>;

    /// Tells the container's own terminal its size.
    async fn attach_resize(&self, id: &str, width: u16, height: u16) -> Result<(), Error>;

    /// Connects to a port of the pod as something inside it would, on its own loopback, in the sandbox that runs now; a few
    /// requests.
    async fn dial(&self, pod: &PodUid, port: u16) -> Result<Box<dyn Duplex>, Error>;

    /// The container's log.
    async fn logs(
        &self,
        id: &str,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<(Stream, Bytes), Error>>, Error>;

    /// The image of that name, `None` when the engine does not hold it.
    async fn image(&self, name: &str) -> Result<Option<Image>, Error>;

    /// Pulls an image; the stream tells how it goes and ends with the first error. Dropping it ends the pull.
    async fn pull(
        &self,
        name: &str,
        credentials: Option<&Credentials>,
    ) -> Result<BoxStream<'static, Result<PullStep, Error>>, Error>;
}

/// Labels of the containers the kubelet makes; the only identity it reads back.
pub mod labels {
    /// Pod name.
    pub const POD_NAME: &str = "io.kubernetes.pod.name";
    /// Pod namespace.
    pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
    /// Pod UID.
    pub const POD_UID: &str = "io.kubernetes.pod.uid";
    /// Container name, `POD` for the sandbox.
    pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
    /// Restarts before this one.
    pub const ATTEMPT: &str = "io.kubernetes.container.attempt";
    /// Hash of what it was made from.
    pub const HASH: &str = "io.kubernetes.container.hash";
    /// The node whose kubelet made it.
    pub const NODE: &str = "io.kubernetes.node.name";
    /// Milliseconds a restart waits should this attempt end.
    pub const BACK_OFF: &str = "io.coracle.container.back-off-ms";
    /// Engine id of the sandbox it joined.
    pub const SANDBOX: &str = "io.coracle.sandbox.id";
    /// The image as the manifest names it.
    pub const IMAGE: &str = "io.coracle.container.image";
    /// `terminationMessagePolicy`.
    pub const TERMINATION_POLICY: &str = "io.coracle.container.termination-message-policy";
    /// Where the termination message lies on the host.
    pub const TERMINATION_FILE: &str = "io.coracle.container.termination-message-file";
    /// What the engine refused and the container does without, one part a line.
    pub const DONE_WITHOUT: &str = "io.coracle.container.done-without";
    /// The name a sandbox bears in [`CONTAINER_NAME`].
    pub const SANDBOX_NAME: &str = "POD";
}

/// A set of labels or annotations.
pub type Labels = BTreeMap<String, String>;
