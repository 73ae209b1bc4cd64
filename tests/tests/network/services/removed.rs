//! Clients whose endpoint is removed: session affinity and UDP, also while the client sends, and after a kubelet is
//! killed.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use kubelet::network::nft::services::ServiceTable;
use tests::DEADLINE;

use super::rules::{Rules, TABLE, cluster_ip, count, stage};
use crate::pod_network::rules::stage::{At, WHO, run};

const SERVERS: [At; 3] = [At::PodA, At::PodB, At::Outside];

/// The servers except that of an answer.
fn others(answer: &str) -> Vec<At> {
    SERVERS.into_iter().filter(|one| !answer.starts_with(&format!("{one:?}"))).collect()
}

#[tokio::test]
async fn a_client_stays_with_its_endpoint_until_that_is_gone() {
    let (stage, mut table) = stage().await;
    Rules::cluster(&[At::PodA, At::PodB, At::Outside], Some(60)).apply(&mut table);
    for version in [4, 6] {
        let at = cluster_ip(version);
        let first = count(&stage, At::Node, &at, 20);
        assert_eq!(first.len(), 1, "{first:?}: {}", run("nft list ruleset"));
    }
    let stayed = count(&stage, At::Node, &cluster_ip(4), 1).into_keys().next().unwrap();
    let rest: Vec<At> =
        [At::PodA, At::PodB, At::Outside].into_iter().filter(|one| format!("{one:?}") != stayed).collect();
    Rules::cluster(&rest, Some(60)).apply(&mut table);
    let next = count(&stage, At::Node, &cluster_ip(4), 20);
    assert!(next.len() == 1 && !next.contains_key(&stayed), "{next:?}");
    // The next kubelet finds the same rules, and clients stay with their endpoints.
    let mut again = ServiceTable::open().unwrap();
    let applied = Rules::cluster(&rest, Some(60)).apply(&mut again);
    assert_eq!((applied.is_new, applied.elements), (false, 0));
    assert_eq!(count(&stage, At::Node, &cluster_ip(4), 20).keys().next(), next.keys().next());
}

#[tokio::test]
async fn a_udp_client_leaves_an_endpoint_that_is_gone() {
    let (stage, mut table) = stage().await;
    Rules::cluster(&[At::PodB], None).apply(&mut table);
    let at = cluster_ip(4);
    let send = stage.udp_client(At::PodA, &at);
    assert!(send().unwrap().starts_with("PodB"));
    Rules::cluster(&[At::Outside], None).apply(&mut table);
    assert!(send().unwrap().starts_with("Outside"));
}

#[tokio::test]
async fn a_busy_udp_client_with_affinity_leaves_an_endpoint_that_is_gone() {
    let (stage, mut table) = stage().await;
    let at = cluster_ip(4);
    let mut present = SERVERS.to_vec();
    Rules::cluster(&present, Some(60)).apply(&mut table);
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(&at).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let send = || {
        socket.send(b"?").unwrap();
        let mut answer = [0; 100];
        let length = socket.recv(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    };
    // Each round removes the endpoint of the client while it sends.
    while present.len() > 1 {
        let first = send();
        present = others(&first).into_iter().filter(|one| present.contains(one)).collect();
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    // The answer to a packet is lost if its conntrack entry is deleted meanwhile.
                    let _ = socket.send(b"?");
                    thread::park_timeout(Duration::from_micros(100));
                }
            });
            Rules::cluster(&present, Some(60)).apply(&mut table);
            is_done.store(true, Ordering::Relaxed);
        });
        // The answers to these packets may come from the removed endpoint.
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        while socket.recv(&mut [0; 100]).is_ok() {}
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let next = send();
        assert!(present.iter().any(|one| next.starts_with(&format!("{one:?}"))), "{first}, then {next}");
    }
    drop(stage);
}

#[tokio::test]
async fn the_next_kubelet_deletes_entries_of_clients_that_a_killed_one_left() {
    let (stage, mut table) = stage().await;
    let rules = Rules::cluster(&[At::PodB], Some(60));
    rules.apply(&mut table);
    drop(table);
    let client = format!("{} . 10.96.0.9 . tcp . 80", At::Outside.address(4));
    run(&format!("nft add element inet {TABLE} clients '{{ {client} timeout 1m }}'"));
    let gone = format!("{} . {WHO}", At::PodA.address(4));
    run(&format!("nft add element inet {TABLE} affinity '{{ {client} timeout 1h : {gone} }}'"));
    assert_eq!(
        count(&stage, At::Outside, &cluster_ip(4), 1).keys().next().unwrap(),
        "PodA",
        "the entry counts"
    );
    let applied = rules.apply(&mut ServiceTable::open().unwrap());
    assert_eq!((applied.is_new, applied.elements, applied.is_incomplete), (false, 0, false));
    assert_eq!(count(&stage, At::Outside, &cluster_ip(4), 1).keys().next().unwrap(), "PodB");
}

#[tokio::test]
async fn a_udp_client_stays_with_an_endpoint_while_it_drains() {
    let (stage, mut table) = stage().await;
    let at = cluster_ip(4);
    Rules::cluster(&[At::PodB], None).apply(&mut table);
    let send = stage.udp_client(At::PodA, &at);
    assert!(send().unwrap().starts_with("PodB"));
    // New connections go elsewhere.
    let mut draining = Rules::cluster(&[At::Outside], None);
    let endpoint: SocketAddr = format!("{}:{WHO}", At::PodB.address(4)).parse().unwrap();
    draining.0.serving_udp.get_mut(&at.parse().unwrap()).unwrap().insert(endpoint);
    draining.apply(&mut table);
    assert!(send().unwrap().starts_with("PodB"));
    assert!(stage.query_udp(At::PodA, &at).unwrap().starts_with("Outside"));
    // Without any endpoint there is no better one.
    let mut none = Rules::cluster(&[], None);
    assert_eq!(none.0.serving_udp[&at.parse().unwrap()], BTreeSet::new());
    none.apply(&mut table);
    assert!(send().unwrap().starts_with("PodB"));
    none = Rules::cluster(&[At::Outside], None);
    none.apply(&mut table);
    assert!(send().unwrap().starts_with("Outside"));
}
