//! Machines of a bed: what survives a power cut and what does not, and which machines reach each other.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use tests::manifest::sleeper;
use tests::{Bed, DEADLINE, Machine, wait_until};

/// Timeout of an answer. All machines share one kernel, so a later answer is not expected.
const UNANSWERED_AFTER: Duration = Duration::from_millis(700);

const PORT: u16 = 7;

const VERSIONS: [u8; 2] = [4, 6];

/// Starts a server on that machine that answers with the client's address, until the listener is closed.
fn listen(machine: &Machine) {
    let listener = machine.at(|| TcpListener::bind(("::", PORT)).unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            if let Ok(peer) = stream.peer_addr() {
                let _ = stream.write_all(peer.ip().to_canonical().to_string().as_bytes());
            }
        }
    });
}

/// The client address that the machine sees for this thread's host, by an IP version.
fn send_request(machine: &Machine, version: u8) -> Result<String, String> {
    let to = SocketAddr::new(machine.address_of(version).parse().unwrap(), PORT);
    let mut stream = TcpStream::connect_timeout(&to, UNANSWERED_AFTER).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(UNANSWERED_AFTER)).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).map_err(|error| error.to_string())?;
    Ok(response)
}

/// Waits until one machine reaches another with its own source addresses.
async fn receives(from: &Machine, to: &Machine) {
    for version in VERSIONS {
        let look = async || match from.at(|| send_request(to, version)) {
            Ok(response) if response == from.address_of(version) => Ok(()),
            other => Err(format!("{} to {} by IPv{version}: {other:?}", from.address, to.address)),
        };
        wait_until(DEADLINE, look).await.unwrap();
    }
}

fn assert_not_received(from: &Machine, to: &Machine) {
    for version in VERSIONS {
        let response = from.at(|| send_request(to, version));
        assert!(response.is_err(), "{} to {} by IPv{version}: {response:?}", from.address, to.address);
    }
}

/// Whether the machine answers the desk by an IP version and sees the desk's own address.
fn is_desk_reachable(bed: &Bed, by: &Machine, version: u8) -> bool {
    send_request(by, version).is_ok_and(|response| response == bed.address_of(version))
}

async fn desk_receives(bed: &Bed, by: &Machine) {
    for version in VERSIONS {
        let look = async || {
            is_desk_reachable(bed, by, version).then_some(()).ok_or_else(|| format!("not by IPv{version}"))
        };
        wait_until(DEADLINE, look).await.unwrap();
    }
}

fn assert_desk_unreachable(bed: &Bed, by: &Machine) {
    assert!(!VERSIONS.iter().any(|version| is_desk_reachable(bed, by, *version)));
}

#[tokio::test]
async fn test_machines_receive_packets_only_over_connected_links() {
    let (bed, [a, b, mut c]) = Bed::with([1, 1, 2]).await;
    let all = [&a, &b, &c];
    all.iter().for_each(|machine| listen(machine));
    for (from, to) in all.iter().flat_map(|from| all.iter().map(move |to| (from, to))) {
        receives(from, to).await;
    }
    desk_receives(&bed, &a).await;

    a.cut();
    assert_not_received(&b, &a);
    assert_not_received(&a, &c);
    a.heal();
    receives(&b, &a).await;
    for (from, to) in [(&a, &b), (&a, &c)] {
        from.lose_towards(to);
        assert_not_received(from, to);
        assert_not_received(to, from);
        receives(&b, &c).await;
        bed.lose_nothing();
        receives(from, to).await;
    }
    bed.lose_towards(&c);
    assert_desk_unreachable(&bed, &c);
    bed.lose_nothing();
    bed.lose_from(&c);
    assert_desk_unreachable(&bed, &c);
    bed.lose_nothing();
    desk_receives(&bed, &c).await;

    let before = c.address.clone();
    c.renumber(77);
    assert_ne!(c.address, before);
    receives(&c, &a).await;
    receives(&a, &c).await;
}

#[tokio::test]
async fn power_cut_keeps_only_the_disk_of_a_test_machine() {
    let (_bed, [mut a]) = Bed::with([1]).await;
    // The same state as on any machine where Docker was the first to enable forwarding.
    assert!(a.run("iptables -S FORWARD").starts_with("-P FORWARD DROP\n"));
    assert_eq!(a.run("hostname").trim(), a.node.node);
    assert_eq!(a.run("ls /sys/class/net | tr '\\n' ' '"), "docker0 eth0 lo ");
    a.run("touch /run/here; ip route add 192.0.2.0/24 via 10.77.1.1; nft add table inet here");
    a.node.start().await;
    a.node.write("web.yaml", &sleeper("web"));
    let before = a.node.wait_ready("web").await;
    let process = a.node.kubelet_pid();
    assert!(Path::new(&format!("/proc/{process}")).exists());

    a.freeze();
    let pods_result = tokio::time::timeout(UNANSWERED_AFTER, a.node.pods()).await;
    assert!(pods_result.is_err(), "{pods_result:?}");
    a.thaw();
    a.node.wait_ready("web").await;

    a.power_off();
    assert!(!Path::new(&format!("/proc/{process}")).exists());
    a.boot().await;
    assert_eq!(
        a.run("ls /run/here 2>&1; ip route show 192.0.2.0/24; nft list tables | grep here; true")
            .lines()
            .count(),
        1
    );
    let left = a.node.containers().await;
    assert!(!left.is_empty() && left.iter().all(|container| !container.is_running()), "{left:?}");
    a.node.start().await;
    let again = |pod: &tests::Pod| pod.is_ready() && pod.restarts("main") == 1;
    let after = a.node.wait_for_pod("web", "to run again", again).await;
    assert_eq!(after.uid(), before.uid());
}

#[tokio::test]
async fn a_removed_test_machine_leaves_nothing() {
    let (bed, [mut a]) = Bed::with([1]).await;
    a.node.start().await;
    a.node.write("web.yaml", &sleeper("web"));
    a.node.wait_ready("web").await;
    let disk = a.disk();
    let folder = disk.parent().unwrap().to_owned();
    let part = Path::new("/sys/fs/cgroup/memory").join(folder.file_name().unwrap());
    let text = folder.display().to_string();
    drop((a, bed));
    assert!(!folder.exists());
    assert!(!part.exists());
    let running = tests::host::run("ps -ww -e -o args");
    assert!(!running.contains(&text), "{running}");
}
