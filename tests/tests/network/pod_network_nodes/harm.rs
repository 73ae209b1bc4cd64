//! Harm to a machine's network, and its effect on the connections of the pods.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use kubelet::network::native::bridge_of;
use tests::manifest::{FOREVER, container, pod};
use tests::{Bed, DEADLINE, Machine, network};

use crate::pod_network_nodes::asking::socket;

const PORT: u16 = 7000;
/// A short time even on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(10);
const RANGES: &str = "10.244.9.0/24,fd00:9::/64";

/// A machine whose kubelet gives pods addresses of both IP versions.
async fn alone() -> (Bed, Machine) {
    let (bed, [mut machine]) = Bed::with([1]).await;
    machine.node.set_flags(["--pod-network", "native", "--pod-cidr", RANGES]);
    machine.node.start().await;
    (bed, machine)
}

/// A pod with an echo server for any number of connections on host port [`PORT`].
fn echo() -> String {
    let script = format!("nc -ll -p {PORT} -e cat & {FOREVER}");
    let port = format!("ports: [{{containerPort: {PORT}, hostPort: {PORT}}}]");
    pod("echo", &format!("containers:\n- {}", container("main", &script, &port)))
}

/// Asserts that a word is echoed.
fn resent(stream: &mut TcpStream, word: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(word.as_bytes())?;
    let mut received = vec![0; word.len()];
    stream.read_exact(&mut received)?;
    assert_eq!(received, word.as_bytes());
    Ok(())
}

async fn event(machine: &Machine, text: &str) {
    let look = async || {
        let events = machine.node.get("events").await?;
        let is_reported = |event: &serde_json::Value| {
            event["message"].as_str().is_some_and(|message| message.contains(text))
        };
        if events.iter().any(is_reported) { Ok(()) } else { Err(format!("none of {events:?}")) }
    };
    machine.node.wait_for(&format!("an event that says {text}"), look).await;
}

#[tokio::test]
async fn local_host_port_connections_survive_the_loss_of_the_bridge() {
    let (_bed, machine) = alone().await;
    machine.node.write("echo.yaml", &echo());
    machine.node.wait_ready("echo").await;
    // A router that receives packets for this node's pods resets the unknown connections: the machine itself plays that router.
    machine.run("ip route add local 10.244.0.0/16 dev lo; ip -6 route add local fd00::/32 dev lo");
    let mut streams = Vec::new();
    for version in [4, 6] {
        let to = socket(&machine.address_of(version), PORT);
        let connect = async || {
            let mut stream = machine.at(|| TcpStream::connect(&to)).map_err(|error| error.to_string())?;
            // A host port that leads to no pod yet accepts connections, too.
            resent(&mut stream, "hello").map(|()| stream).map_err(|error| error.to_string())
        };
        streams.push((to.clone(), machine.node.wait_for("the pod to listen", connect).await));
    }
    let bridge = bridge_of(&machine.node.node);
    for (harm, named) in [
        (format!("ip link delete {bridge}"), "was missing"),
        (format!("ip link set {bridge} down"), "was down"),
        (format!("ip addr flush dev {bridge}"), "had lost"),
    ] {
        machine.run(&harm);
        for (to, stream) in &mut streams {
            resent(stream, "later").unwrap_or_else(|error| panic!("{to}, {harm}: {error}"));
        }
        event(&machine, &format!("the bridge {bridge} {named}")).await;
    }
}

#[tokio::test]
async fn unreachable_route_of_the_pod_cidr_is_restored_and_removed_with_the_bridge() {
    let (_bed, mut machine) = alone().await;
    let node = machine.node.node.clone();
    let routes = |machine: &Machine| machine.at(|| network::routes(&node));
    let laid = routes(&machine);
    assert_eq!(laid.len(), 2, "{laid:?}");
    for range in ["10.244.9.0/24", "fd00:9::/64"] {
        machine.run(&format!("ip route del unreachable {range} proto 67"));
        event(&machine, &format!("unreachable route for {range}")).await;
    }
    assert_eq!(routes(&machine), laid);
    machine.node.stop().await;
    assert_eq!(routes(&machine), [""; 0]);
}

#[tokio::test]
async fn disabled_ip_forwarding_is_restored_and_reported() {
    let (_bed, machine) = alone().await;
    for setting in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
        machine.run(&format!("sysctl -w {setting}=0"));
        let is_on = async || match machine.run(&format!("sysctl -n {setting}")).trim() {
            "1" => Ok(()),
            other => Err(other.to_owned()),
        };
        // The repair comes long before the next periodic check, so a notification has caused it.
        machine.node.wait_within(AT_ONCE, &format!("{setting} to be on"), is_on).await;
        event(&machine, &format!("{setting} was off")).await;
    }
}
