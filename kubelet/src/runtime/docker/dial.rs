//! A connection to a port as something inside the container would make it: on the container's own loopback.
//!
//! The engine cannot do that. On its own machine we can: a thread of its own enters the container's network for as long as
//! it takes to connect, and what it has connected stays there.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::sync::oneshot;

use super::{Docker, look};
use crate::runtime::{Duplex, Error};

/// How long a port of the same machine may take to accept.
const CONNECT: Duration = Duration::from_secs(10);
/// Room for a thread that calls a handful of functions.
const STACK_BYTES: usize = 256 * 1024;

const OPERATION: &str = "connect to a port of the container";

pub(super) async fn dial(docker: &Docker, id: &str, port: u16) -> Result<Box<dyn Duplex>, Error> {
    let refused = |message: String| Error::Refused { operation: OPERATION, message };
    let found = look::inspect(docker, id).await?;
    let pid = found.state.and_then(|state| state.pid).filter(|pid| *pid > 0);
    let pid = pid.ok_or_else(|| refused("it does not run".to_owned()))?;
    let (tell, told) = oneshot::channel();
    let container = id.to_owned();
    let thread = std::thread::Builder::new().name("dial".to_owned()).stack_size(STACK_BYTES);
    // Not one of the runtime's threads: it would be in the container's network for whoever gets it next.
    let spawned = thread.spawn(move || drop(tell.send(connect(pid, &container, port))));
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

/// Connects from within the network of that process, which this thread never leaves again.
fn connect(pid: i64, container: &str, port: u16) -> io::Result<TcpStream> {
    let network = File::open(format!("/proc/{pid}/ns/net"))?;
    // The number means this process only where it is in the container's cgroup: else the engine is on another machine or
    // sees other numbers than we do.
    if !fs::read_to_string(format!("/proc/{pid}/cgroup"))?.contains(container) {
        return Err(io::Error::other("the engine is not on this machine"));
    }
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
    let at = |ip: IpAddr| TcpStream::connect_timeout(&SocketAddr::new(ip, port), CONNECT);
    at(Ipv4Addr::LOCALHOST.into()).or_else(|error| at(Ipv6Addr::LOCALHOST.into()).map_err(|_| error))
}
