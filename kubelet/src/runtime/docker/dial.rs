//! A connection to a port as something inside the pod would make it: on the pod's own loopback.
//!
//! The engine cannot do that. On its own machine we can: a thread of its own enters the network of the pod's sandbox for as
//! long as it takes to connect, and what it has connected stays there.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bollard::query_parameters::ListContainersOptions;
use tokio::sync::oneshot;

use super::errors::{ASK, within};
use super::turns::WITHIN;
use super::{Docker, look};
use crate::observed::PodUid;
use crate::runtime::netns::Namespace;
use crate::runtime::{Duplex, Error, labels};

/// Room for a thread that calls a handful of functions.
const STACK_BYTES: usize = 256 * 1024;

const OPERATION: &str = "connect to a port of the pod";

pub(super) async fn dial(docker: &Docker, pod: &PodUid, port: u16) -> Result<Box<dyn Duplex>, Error> {
    let refused = |message: String| Error::Refused { operation: OPERATION, message };
    let sandbox =
        sandbox(docker, pod).await?.ok_or_else(|| refused("it has no sandbox that runs".to_owned()))?;
    let found = look::inspect(docker, &sandbox).await?;
    let pid = found.state.and_then(|state| u32::try_from(state.pid?).ok()).filter(|pid| *pid > 0);
    let pid = pid.ok_or_else(|| refused("its sandbox does not run".to_owned()))?;
    let turn = docker.turns.take(pod).await.map_err(|why| refused(format!("localhost:{port}: {why}")))?;
    let (tell, told) = oneshot::channel();
    let thread = std::thread::Builder::new().name("dial".to_owned()).stack_size(STACK_BYTES);
    // Not one of the runtime's threads: it would be in the pod's network for whoever gets it next.
    let spawned = thread.spawn(move || {
        let _ = tell.send(connect(pid, &sandbox, port));
        drop(turn);
    });
    spawned.map_err(|error| refused(error.to_string()))?;
    let connected = told.await.map_err(|_| refused("the attempt was given up".to_owned()))?;
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

/// The engine id of the pod's sandbox that runs, the newest of several.
async fn sandbox(docker: &Docker, pod: &PodUid) -> Result<Option<String>, Error> {
    let mut filters = docker.node_filter();
    filters.entry("label".to_owned()).or_default().extend([
        format!("{}={pod}", labels::POD_UID),
        format!("{}={}", labels::CONTAINER_NAME, labels::SANDBOX_NAME),
    ]);
    let options = ListContainersOptions { filters: Some(filters), ..ListContainersOptions::default() };
    let request = docker.client().await?.list_containers(Some(options));
    let found = within(ASK, "find the pod's sandbox", "the sandbox", request).await?;
    Ok(found.into_iter().find_map(|sandbox| sandbox.id))
}

/// Connects from within the network of that process, which this thread never leaves again.
fn connect(pid: u32, container: &str, port: u16) -> io::Result<TcpStream> {
    let network = Namespace::of(pid)?;
    // The number means this process only where it is in the container's cgroup: else the engine is on another machine or
    // sees other numbers than we do.
    if !fs::read_to_string(format!("/proc/{pid}/cgroup"))?.contains(container) {
        return Err(io::Error::other("the engine is not on this machine"));
    }
    network.enter()?;
    let due = Instant::now() + WITHIN;
    let at = |ip: IpAddr| match due.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => TcpStream::connect_timeout(&SocketAddr::new(ip, port), left),
    };
    at(Ipv4Addr::LOCALHOST.into()).or_else(|error| at(Ipv6Addr::LOCALHOST.into()).map_err(|_| error))
}
