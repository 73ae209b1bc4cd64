//! `kubelet port-forward`: forwards local TCP ports to a pod, one WebSocket per connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use super::args::PortForward;
use super::client::{Client, Error};
use super::pod::{self, ContainerRef};
use super::print::{note, out};
use super::session::{connect, frame};

/// Subprotocol of the WebSocket: channel 0 is data, channel 1 is errors. Both begin with the port number.
const PROTOCOL: &str = "v4.channel.k8s.io";
/// Maximum bytes of data per message.
const PIECE_BYTES: usize = 32 * 1024;
/// How long a connection continues after the local program has finished sending. The protocol does not tell the pod of
/// this end, so the pod may not close the connection.
const HALF_CLOSED: Duration = Duration::from_secs(60);
/// Accepted connections that wait for the loop. More of them wait in the kernel.
const WAITING: usize = 16;

/// A local port and its port in the pod. The local port 0 stands for any free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ports {
    local: u16,
    remote: u16,
}

/// A local connection, and the ports it belongs to.
type Accepted = (TcpStream, Ports);

/// Runs the subcommand until Ctrl-C, or until the pod is gone.
pub async fn run(client: &Client, arguments: &PortForward) -> anyhow::Result<ExitCode> {
    let (name, object) = pod::object(client, &arguments.place.namespace, &arguments.pod).await?;
    let phase = object.pointer("/status/phase").and_then(Value::as_str).unwrap_or("Unknown");
    anyhow::ensure!(
        phase == "Running",
        "unable to forward port because pod is not running. Current status={phase}"
    );
    let ports: Result<Vec<Ports>, String> =
        arguments.ports.iter().map(|text| parse(text, &|name| named_port(&object, name))).collect();
    let ports = ports.map_err(anyhow::Error::msg)?;
    let place = ContainerRef {
        namespace: arguments.place.namespace.clone(),
        pod: name,
        container: String::new(),
        spec: Value::Null,
    };
    let (sender, mut accepted) = mpsc::channel(WAITING);
    let mut tasks = JoinSet::new();
    for ports in ports {
        for (listener, ports) in listen(&arguments.address, ports).await? {
            let address = listener.local_addr()?;
            out(format!("Forwarding from {address} -> {}\n", ports.remote).as_bytes())?;
            tasks.spawn(accept(listener, ports, sender.clone()));
        }
    }
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            stopped = tokio::signal::ctrl_c() => {
                stopped?;
                return Ok(ExitCode::SUCCESS);
            }
            Some((stream, ports)) = accepted.recv() => {
                out(format!("Handling connection for {}\n", ports.local).as_bytes())?;
                let path = format!("{}?ports={}", place.path("portforward"), ports.remote);
                let client = client.clone();
                connections.spawn(async move { (ports, forward(client, path, stream).await) });
            }
            Some(ended) = connections.join_next() => {
                let (Ports { local, remote }, ended) = ended?;
                let Err(error) = ended else { continue };
                note(format_args!("error: an error occurred forwarding {local} -> {remote}: {error}"));
                anyhow::ensure!(!is_final(&error), "lost connection to pod");
            }
        }
    }
}

/// Whether all further connections would fail too: the pod is gone, or the kubelet does not run.
fn is_final(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Error>().is_some_and(|error| match error {
        Error::NotRunning { .. } | Error::NotAllowed { .. } => true,
        Error::Refused { code, .. } => *code == 404,
        Error::Broken(_) => false,
    })
}

/// Parses `[LOCAL:]REMOTE`.
fn parse(text: &str, named: &dyn Fn(&str) -> Option<u16>) -> Result<Ports, String> {
    let (local, remote) = text.split_once(':').map_or((None, text), |(local, remote)| (Some(local), remote));
    let number = |text: &str| text.parse::<u16>().ok();
    let remote_port = number(remote).filter(|port| *port > 0).or_else(|| named(remote));
    let remote_port = remote_port.ok_or_else(|| match number(remote) {
        Some(_) => "remote port must be > 0".to_owned(),
        None => format!("\"{remote}\" is neither a port nor the name of a port of the pod"),
    })?;
    let local_port = match local {
        None => Some(remote_port),
        Some("") => Some(0),
        Some(text) => number(text),
    };
    let local_port =
        local_port.ok_or_else(|| format!("error parsing local port \"{}\"", local.unwrap_or_default()))?;
    Ok(Ports { local: local_port, remote: remote_port })
}

/// The number of a named port of the pod.
fn named_port(pod: &Value, name: &str) -> Option<u16> {
    let lists = ["/spec/containers", "/spec/initContainers"];
    let containers = lists.iter().filter_map(|list| pod.pointer(list)?.as_array()).flatten();
    let mut ports = containers.filter_map(|container| container.get("ports")?.as_array()).flatten();
    let port = ports.find(|port| port.get("name").and_then(Value::as_str) == Some(name))?;
    port.get("containerPort").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok())
}

/// Listens on the port of all addresses. `localhost` needs one of its two addresses.
async fn listen(addresses: &[String], mut ports: Ports) -> anyhow::Result<Vec<(TcpListener, Ports)>> {
    let mut listeners = Vec::new();
    for address in addresses {
        let ips = match address.as_str() {
            "localhost" => vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)],
            text => vec![text.parse().map_err(|_| anyhow::anyhow!("\"{text}\" is not a valid IP"))?],
        };
        let (mut failures, before) = (Vec::new(), listeners.len());
        for ip in ips {
            match TcpListener::bind(SocketAddr::new(ip, ports.local)).await {
                Ok(listener) => {
                    // All addresses share the port that the kernel chose for the first one.
                    ports.local = listener.local_addr()?.port();
                    listeners.push((listener, ports));
                }
                Err(error) => failures.push(format!("{ip}: {error}")),
            }
        }
        anyhow::ensure!(
            listeners.len() > before,
            "unable to listen on port {}: {}; choose another local port, or :{} for a free one",
            ports.local,
            failures.join(", "),
            ports.remote
        );
    }
    Ok(listeners)
}

async fn accept(listener: TcpListener, ports: Ports, sender: mpsc::Sender<Accepted>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if sender.send((stream, ports)).await.is_err() {
                    return;
                }
            }
            // For example if this process has too many open files.
            Err(error) => {
                note(format_args!("error: cannot accept a connection on port {}: {error}", ports.local));
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Forwards one connection until the pod closes it or the local program disconnects.
async fn forward(client: Client, path: String, stream: TcpStream) -> anyhow::Result<()> {
    let (mut sink, mut messages) = connect(&client, &path, PROTOCOL).await?.split();
    let (mut from_local, mut to_local) = stream.into_split();
    let sending = async {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(read @ 1..) = from_local.read(&mut piece).await {
            if sink.send(frame(0, &piece[..read])).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(HALF_CLOSED).await;
    };
    let receiving = async {
        let (mut failure, mut began) = (Vec::new(), [false; 2]);
        while let Some(message) = messages.next().await {
            let bytes = match message.map_err(|error| Error::Broken(error.to_string()))? {
                Message::Binary(bytes) => bytes,
                Message::Close(_) => break,
                _ => continue,
            };
            let Some((channel @ 0..=1, rest)) = bytes.split_first() else { continue };
            // The first message of a channel holds the port.
            if !std::mem::replace(&mut began[usize::from(*channel)], true) {
                continue;
            }
            if *channel == 1 {
                failure.extend_from_slice(rest);
            } else if to_local.write_all(rest).await.is_err() {
                return Ok(());
            }
        }
        // The local program may have closed the connection.
        let _ = to_local.shutdown().await;
        anyhow::ensure!(failure.is_empty(), "{}", String::from_utf8_lossy(&failure));
        Ok(())
    };
    tokio::select! {
        () = sending => Ok(()),
        received = receiving => received,
    }
}

#[cfg(test)]
mod tests {
    //! Tests of port arguments.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::{Ports, listen, named_port, parse};

    #[test]
    fn port_arguments_follow_kubectl() {
        let pod = json!({"spec": {"containers": [{"ports": [{"containerPort": 80, "name": "http"}]}]}});
        let read = |text: &str| parse(text, &|name| named_port(&pod, name));
        for (text, local, remote) in [
            ("80", 80, 80),
            ("8080:80", 8080, 80),
            (":80", 0, 80),
            ("0:80", 0, 80),
            ("8080:http", 8080, 80),
            ("http", 80, 80),
        ] {
            assert_eq!(read(text).unwrap(), Ports { local, remote }, "{text}");
        }
        for (text, expected) in [
            ("8080:0", "remote port must be > 0"),
            ("x:80", "error parsing local port \"x\""),
            ("80:ftp", "\"ftp\" is neither a port nor the name of a port of the pod"),
            ("99999", "\"99999\" is neither a port nor the name of a port of the pod"),
        ] {
            assert_eq!(read(text).unwrap_err(), expected, "{text}");
        }
    }

    #[tokio::test]
    async fn all_addresses_share_a_free_port() {
        let found = listen(&["localhost".to_owned()], Ports { local: 0, remote: 80 }).await.unwrap();
        let port = found[0].1.local;
        assert!(port > 0 && found.iter().all(|(_, ports)| ports.local == port), "{found:?}");
        let taken = listen(&["127.0.0.1".to_owned()], Ports { local: port, remote: 80 }).await;
        assert!(
            taken
                .unwrap_err()
                .to_string()
                .starts_with(&format!("unable to listen on port {port}: 127.0.0.1"))
        );
        assert!(listen(&["nowhere".to_owned()], Ports { local: 0, remote: 80 }).await.is_err());
    }
}
