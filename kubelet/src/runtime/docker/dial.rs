//! Connects to a port on the loopback interface of a pod, for port forwarding.
//!
//! The engine has no API to connect to such a port. For a local engine, a dedicated thread enters the network
//! namespace of the sandbox and connects. The socket stays in that namespace.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bollard::query_parameters::ListContainersOptions;
use tokio::sync::oneshot;

use super::dial_limits::DIAL_TIMEOUT;
use super::errors::{QUERY_TIMEOUT, with_timeout};
use super::{Docker, inspect};
use crate::observed::PodUid;
use crate::runtime::netns::Namespace;
use crate::runtime::{Duplex, Error, labels};

/// Stack size of the thread. It is small, because the thread calls few functions.
const STACK_BYTES: usize = 256 * 1024;

const OPERATION: &str = "connect to a port of the pod";

pub(super) async fn dial(docker: &Docker, pod: &PodUid, port: u16) -> Result<Box<dyn Duplex>, Error> {
    let refused = |message: String| Error::refused(OPERATION, message);
    let sandbox =
        sandbox(docker, pod).await?.ok_or_else(|| refused("the pod has no running sandbox".to_owned()))?;
    let found = inspect::inspect_raw(docker, &sandbox).await?;
    let pid = found.state.and_then(|state| u32::try_from(state.pid?).ok()).filter(|pid| *pid > 0);
    let pid = pid.ok_or_else(|| refused("the pod's sandbox is not running".to_owned()))?;
    let turn =
        docker.dial_limits.take(pod).await.map_err(|why| refused(format!("localhost:{port}: {why}")))?;
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("dial".to_owned()).stack_size(STACK_BYTES);
    // Not a thread of the async runtime, because the thread stays in the pod's network namespace.
    let spawned = thread.spawn(move || {
        let _ = sender.send(connect(pid, &sandbox, port));
        drop(turn);
    });
    spawned.map_err(|error| refused(error.to_string()))?;
    let connected = receiver.await.map_err(|_| refused("the attempt was aborted".to_owned()))?;
    let stream = connected.and_then(|stream| {
        stream.set_nonblocking(true)?;
        tokio::net::TcpStream::from_std(stream)
    });
    match stream {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => {
            let text = error.to_string();
            Err(refused(format!("localhost:{port}: {}", text.split(" (os error").next().unwrap_or_default())))
        }
    }
}

/// Engine id of the pod's newest running sandbox.
async fn sandbox(docker: &Docker, pod: &PodUid) -> Result<Option<String>, Error> {
    let mut filters = docker.node_filter();
    filters.entry("label".to_owned()).or_default().extend([
        format!("{}={pod}", labels::POD_UID),
        format!("{}={}", labels::CONTAINER_NAME, labels::SANDBOX_NAME),
    ]);
    let options = ListContainersOptions { filters: Some(filters), ..ListContainersOptions::default() };
    let request = docker.client().await?.list_containers(Some(options));
    let found = with_timeout(QUERY_TIMEOUT, "find the pod's sandbox", "the sandbox", request).await?;
    Ok(found.into_iter().find_map(|sandbox| sandbox.id))
}

/// Connects from the network namespace of a process. The thread cannot leave the namespace afterwards.
fn connect(pid: u32, container: &str, port: u16) -> io::Result<TcpStream> {
    let network = Namespace::of(pid)?;
    // The pid is valid only if its cgroup names the container. Otherwise the engine is remote or in another pid namespace.
    if !fs::read_to_string(format!("/proc/{pid}/cgroup"))?.contains(container) {
        return Err(io::Error::other("the engine is not on this machine"));
    }
    network.enter()?;
    let due = Instant::now() + DIAL_TIMEOUT;
    let at = |ip: IpAddr| match due.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => TcpStream::connect_timeout(&SocketAddr::new(ip, port), left),
    };
    at(Ipv4Addr::LOCALHOST.into()).or_else(|error| at(Ipv6Addr::LOCALHOST.into()).map_err(|_| error))
}
