//! Another program changes rules during traffic: the kubelet restores its own rules, and repairs do not trigger each other.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use kubelet::network::nft::{Node, Port, Rules, Watch};
use tests::DEADLINE;
use tokio::time::timeout;

use super::stage::{At, BRIDGE, Stage, UNANSWERED_AFTER, ensure, node, port, run};

/// Timeout of a notification. Everything happens in one kernel, so a later one is not expected.
const SILENCE: Duration = Duration::from_millis(300);

/// Checks the rules after each notification until there are no more. Returns the number of repairs.
async fn settle(watch: &mut Watch, ports: &[Port]) -> usize {
    let mut repairs = 0;
    // Each repair causes a notification too, so a cycle would never end.
    for _ in 0..50 {
        if timeout(SILENCE, watch.changed()).await.is_err() {
            return repairs;
        }
        repairs += usize::from(!ensure(&node(), ports).is_nothing());
    }
    panic!("rules go on changing, repaired {repairs} times: {}", run("nft list ruleset"));
}

#[tokio::test]
async fn flushed_rules_are_restored_under_traffic() {
    let stage = Stage::new().await;
    run("iptables -P FORWARD DROP");
    let ports = [port("0.0.0.0", 8080, At::PodA)];
    let mut watch = Watch::new().unwrap();
    ensure(&node(), &ports);
    settle(&mut watch, &ports).await;
    let works = || stage.assert_received(At::Outside, "192.0.2.1:8080", At::PodA, "192.0.2.2");
    works();
    let (traffic, over) = mpsc::channel::<()>();
    // The thread starts in the namespace in which it is created.
    let client = stage.at(At::Outside, || thread::spawn(move || query_until(&over)));
    for harm in [
        "nft flush ruleset".to_owned(),
        format!("nft delete table inet {BRIDGE}"),
        format!("nft flush table inet {BRIDGE}"),
        format!("nft flush map inet {BRIDGE} ports"),
        format!("nft flush chain inet {BRIDGE} host_ports"),
        format!("nft insert rule inet {BRIDGE} prerouting tcp dport 8080 accept"),
        format!("nft delete element inet {BRIDGE} cluster '{{ 10.88.0.0/16 }}'"),
        format!("nft 'add table inet {BRIDGE} {{ flags dormant; }}'"),
        format!("nft 'add chain inet {BRIDGE} guard {{ policy drop; }}'"),
        format!("nft 'add element inet {BRIDGE} ports {{ tcp . 8081 : 10.88.1.3 . 80 }}'"),
        "iptables -F FORWARD".to_owned(),
    ] {
        run(&harm);
        // `nft flush ruleset` also deletes the tables of `iptables`, and with them the policy.
        run("iptables -P FORWARD DROP");
        assert!(settle(&mut watch, &ports).await >= 1, "{harm}");
        works();
        stage.assert_not_received(At::Outside, "192.0.2.1:8081");
    }
    drop(traffic);
    assert!(client.join().unwrap() > 0);
}

/// Sends requests to the host port until the test is over. Returns the number of answers.
fn query_until(over: &Receiver<()>) -> usize {
    let to = "192.0.2.1:8080".parse().unwrap();
    let mut answered = 0;
    while over.try_recv() == Err(TryRecvError::Empty) {
        answered += usize::from(TcpStream::connect_timeout(&to, UNANSWERED_AFTER).is_ok());
    }
    answered
}

#[tokio::test]
async fn rule_changes_of_other_programs_cause_a_check_but_no_write() {
    let stage = Stage::new().await;
    run("iptables -P FORWARD DROP");
    let ports = [port("0.0.0.0", 8080, At::PodA)];
    ensure(&node(), &ports);
    let mut watch = Watch::new().unwrap();
    // A container engine makes the same change for each container.
    run("iptables -N DOCKER");
    run("iptables -I FORWARD -j DOCKER");
    for _ in 0..20 {
        run("iptables -I FORWARD -o docker0 -j DOCKER");
        run("iptables -I DOCKER -d 172.17.0.2/32 -p tcp --dport 80 -j ACCEPT");
    }
    assert_eq!(settle(&mut watch, &ports).await, 0);
    stage.assert_received(At::Outside, "192.0.2.1:8080", At::PodA, "192.0.2.2");

    // More changes than the socket buffer holds: the kernel reports the loss.
    run("i=0; while [ $i -lt 20000 ]; do echo \"add table inet t$i\"; i=$((i+1)); done | nft -f -");
    timeout(SILENCE, watch.changed()).await.expect("a notification arrives");
    timeout(SILENCE, watch.changed()).await.expect_err("all of it at once");
    assert!(ensure(&node(), &ports).is_nothing());
}

#[tokio::test]
async fn rules_are_replaced_without_a_gap() {
    let stage = Stage::new().await;
    let ports = BTreeSet::from([port("0.0.0.0", 8080, At::PodA)]);
    // One node with a different table, and one that differs only in the cluster's part of it.
    let other = Node { cidrs: vec![node().cidrs[0]], ..node() };
    let nodes = [node(), other.clone(), Node { cluster: vec![], ..other }];
    let mut rules = Rules::open().unwrap();
    rules.ensure(&nodes[0], &ports, &[].into()).unwrap();
    let rebuilder = thread::spawn(move || {
        for rebuilt in 1..=10 {
            assert!(!rules.ensure(&nodes[rebuilt % 3], &ports, &[].into()).unwrap().is_nothing());
        }
    });
    let (mut count, mut failures) = (0, Vec::new());
    while count < 300 || !rebuilder.is_finished() {
        match stage.send_request(At::Outside, "192.0.2.1:8080", DEADLINE) {
            Ok(response) => assert_eq!(response, "PodA sees 192.0.2.2"),
            Err(error) => failures.push(error),
        }
        count += 1;
    }
    rebuilder.join().unwrap();
    // The kernel evaluates the chains of the old and the new table one after the other. A connection that starts during
    // a commit can find neither in effect. Two commits with a gap between them would refuse many connections.
    assert!(failures.len() <= 1, "{failures:?}");
}

#[tokio::test]
async fn concurrent_rule_changes_are_all_applied() {
    let _stage = Stage::new().await;
    ensure(&node(), &[]);
    let mut writers = Vec::new();
    for writer in 0..4 {
        // Opened here because the thread starts in the network namespace of the test.
        let mut rules = Rules::open().unwrap();
        writers.push(thread::spawn(move || {
            for number in 0..25 {
                let port = port("0.0.0.0", 1000 + writer * 100 + number, At::PodA);
                rules.add(BRIDGE, &[port]).unwrap();
            }
        }));
    }
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(Rules::open().unwrap().ports(BRIDGE).unwrap().len(), 100);
}
