//! The pod CIDR of a node follows its Node object, and the kubelet maintains the network accordingly.

use std::path::Path;
use std::sync::Arc;

use kubelet::network::native::{self, Native, NetworkState, Settings};
use kubelet::network::{Member, Members};
use kubelet::observed::{PodUid, Sandbox, State, Timestamp};
use kubelet::report::Outbox;
use kubelet::runtime::spec::{Dns, Network};
use kubelet::runtime::{Identity, SandboxSpec};
use tests::{DEADLINE, Host, wait_until};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::stage::{At, Stage, address};
use crate::pod_network::rules::stage::run;

const FIRST: &str = "10.77.1.0/24";
const SECOND: &str = "10.77.5.0/24";
/// The API server's address, behind a router.
const SERVER: &str = "10.77.9.9";
const AROUND_SERVER: &str = "10.77.9.0/24";
const OF_B: &str = "10.77.2.0/24";

/// A node in its own network namespace; each thread that the node starts is in that namespace too.
struct Node {
    native: Arc<Native>,
    keeper: JoinHandle<()>,
    cluster: watch::Sender<Option<Arc<Members>>>,
    health: watch::Receiver<Result<(), String>>,
    outbox: Arc<Outbox>,
    received_notes: Vec<String>,
}

async fn open(root: &Path, given: &[&str]) -> Arc<Native> {
    open_as("node-a", root, given).await
}

async fn open_as(node: &str, root: &Path, given: &[&str]) -> Arc<Native> {
    try_open(node, root, given).await.unwrap()
}

async fn try_open(node: &str, root: &Path, given: &[&str]) -> std::io::Result<Arc<Native>> {
    let settings = Settings {
        node: node.to_owned(),
        directory: root.to_owned(),
        ranges: given.iter().map(|range| range.parse().unwrap()).collect(),
        host_dns: Box::new(|| Ok(Dns::default())),
        servers: Box::new(|| vec![address(SERVER)]),
        serves_dns: false,
        is_of_cluster: true,
        serves_services: false,
    };
    Ok(native::open(settings).await?.0)
}

impl Node {
    async fn start(root: &Path, given: &[&str]) -> Self {
        let native = open(root, given).await;
        let (cluster, members) = watch::channel(None);
        let (health_sender, health) = watch::channel(Ok(()));
        let outbox = Outbox::new();
        let keeper = tokio::spawn(native::reconcile(
            native.clone(),
            outbox.clone(),
            Some(members),
            true,
            health_sender,
        ));
        Self { native, keeper, cluster, health, outbox, received_notes: Vec::new() }
    }

    async fn stop(self) {
        self.keeper.abort();
        native::close(self.native).await.unwrap();
    }

    /// Changes the membership that the node receives.
    fn receives(&self, own: &[&str], of_b: &[&str], b_is_older: bool) {
        let ranges = |all: &[&str]| all.iter().map(|range| range.parse().unwrap()).collect();
        let b = Member {
            name: "node-b".to_owned(),
            is_older: b_is_older,
            addresses: vec![address("192.0.2.2")],
            port: 10250,
            ranges: ranges(of_b),
        };
        self.cluster.send_replace(Some(Arc::new(Members { own: ranges(own), others: vec![b] })));
    }

    /// Waits for an event that starts with the reason and contains all these words.
    async fn is_reported(&mut self, reason: &str, words: &[&str]) {
        let is_it = |note: &String| note.starts_with(reason) && words.iter().all(|word| note.contains(word));
        while !self.received_notes.iter().any(is_it) {
            let mail = tokio::time::timeout(DEADLINE, self.outbox.take()).await;
            let mail = mail.unwrap_or_else(|_| panic!("{reason} {words:?}: {:?}", self.received_notes));
            self.received_notes
                .extend(mail.notes.into_iter().map(|note| format!("{}: {}", note.reason, note.message)));
        }
        self.received_notes.clear();
    }

    /// Waits until the node is healthy, or until its health error contains these words.
    async fn is_well(&mut self, words: Option<&[&str]>) {
        let is_so = |health: &Result<(), String>| match (health, words) {
            (Ok(()), None) => true,
            (Err(why), Some(words)) => words.iter().all(|word| why.contains(word)),
            _ => false,
        };
        tokio::time::timeout(DEADLINE, self.health.wait_for(is_so)).await.unwrap().unwrap();
    }
}

/// Waits until the output of a command contains `words` and none of `not`.
async fn shows(command: &str, words: &[&str], not: &[&str]) {
    let look = async || {
        let received_notes = run(command);
        let is_so = words.iter().all(|word| received_notes.contains(word))
            && !not.iter().any(|word| received_notes.contains(word));
        if is_so { Ok(()) } else { Err(format!("{command}: {words:?} and not {not:?}: {received_notes}")) }
    };
    wait_until(DEADLINE, look).await.unwrap();
}

fn sandbox(uid: &str) -> SandboxSpec {
    SandboxSpec {
        identity: Identity {
            uid: PodUid::new(uid),
            pod: uid.to_owned(),
            namespace: "default".to_owned(),
            container: "POD".to_owned(),
            attempt: 0,
            hash: String::new(),
        },
        image: String::new(),
        network: Network::Bare,
        host_ports: Vec::new(),
        hostname: None,
        domain: None,
        host_aliases: Vec::new(),
        dns: Dns::default(),
        host_pid: false,
        host_ipc: false,
        share_process_namespace: false,
        sysctls: Default::default(),
        cgroup_parent: None,
        security_options: Vec::new(),
        user: None,
    }
}

/// The network state of a pod's sandbox.
fn standing(native: &Native, uid: &str, process: u32) -> NetworkState {
    let sandbox_of = Sandbox {
        id: format!("id-{uid}"),
        attempt: 0,
        hash: String::new(),
        state: State::Created,
        ips: Vec::new(),
        is_bare: true,
        created_at: Timestamp::now(),
    };
    native.network_state(&sandbox(uid).identity, &sandbox_of, Some(process))
}

#[tokio::test]
async fn node_uses_the_pod_cidr_assigned_by_the_cluster() {
    let stage = Stage::new().await;
    let pod = Host::new().await;
    stage.enter(At::A);
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::start(root.path(), &[]).await;
    let bridge = "ip addr show type bridge";

    // No other node knows a pod CIDR that the node chose itself.
    node.receives(&[], &[OF_B], true);
    node.is_well(Some(&["node-a", "no pod CIDR"])).await;
    node.is_reported("PodNetworkFailed", &["node-a", "no pod CIDR"]).await;
    node.receives(&[FIRST], &[OF_B], true);
    node.is_well(None).await;
    node.is_reported("PodCIDRChanged", &["10.77.1.0/24"]).await;
    shows(bridge, &["10.77.1.1/24"], &[]).await;
    shows("ip route", &["10.77.2.0/24 via 192.0.2.2 dev eth0"], &[]).await;
    shows("nft list ruleset", &["10.77.1.0-10.77.2.255"], &[]).await;

    // A pod exists when the pod CIDR changes.
    drop(node.native.reserve(&sandbox("old")).await.unwrap());
    node.native.attach(&sandbox("old").identity, pod.pid()).await.unwrap();
    let before = vec![address("10.77.1.2")];
    assert_eq!(standing(&node.native, "old", pod.pid()), NetworkState::Up(before.clone()));
    node.receives(&[SECOND], &[OF_B], true);
    node.is_reported("PodCIDRChanged", &["new pods get addresses of 10.77.5.0/24"]).await;
    shows(bridge, &["10.77.1.1/24", "10.77.5.1/24"], &[]).await;
    assert_eq!(standing(&node.native, "old", pod.pid()), NetworkState::Up(before.clone()));
    drop(node.native.reserve(&sandbox("new")).await.unwrap());
    let after = NetworkState::Down(vec![address("10.77.5.2")]);
    assert_eq!(standing(&node.native, "new", pod.pid()), after);

    // A deleted route is restored.
    run("ip route del 10.77.2.0/24");
    node.is_reported("PodNetworkRepaired", &["10.77.2.0/24, the pods of node node-b"]).await;
    shows("ip route", &["10.77.2.0/24 via 192.0.2.2 dev eth0"], &[]).await;
    run(
        "ip addr del 10.77.5.1/24 dev $(ip -o link show type bridge | grep -o 'coracle-[0-9a-f]*' | head -1)",
    );
    shows(bridge, &["10.77.5.1/24"], &[]).await;

    // The node starts with its last pod CIDR and knows its peers before the first update of the membership.
    node.stop().await;
    shows("ip route", &["10.77.2.0/24 via 192.0.2.2 dev eth0"], &[]).await;
    let mut node = Node::start(root.path(), &[]).await;
    assert_eq!(node.native.current(), [SECOND.parse().unwrap()]);
    shows("nft list ruleset", &["10.77.1.0-10.77.2.255", "10.77.5.0/24"], &[]).await;
    assert_eq!(standing(&node.native, "old", pod.pid()), NetworkState::Up(before.clone()));

    // Another node now has the former pod CIDR.
    node.receives(&[SECOND], &[OF_B, FIRST], true);
    node.is_reported("PodCIDRChanged", &["node-b now has 10.77.1.0/24", "1 pods"]).await;
    assert_eq!(standing(&node.native, "old", pod.pid()), NetworkState::Lost);
    assert_eq!(standing(&node.native, "new", pod.pid()), after);
    shows("ip route", &["10.77.1.0/24 via 192.0.2.2 dev eth0"], &["10.77.1.0/24 dev coracle"]).await;

    // A pod without a record is still attached to the bridge.
    for uid in ["old", "new"] {
        node.native.release(&format!("id-{uid}")).await;
    }
    node.stop().await;
    shows("ip link", &["coracle", "master coracle"], &[]).await;
    // After the last pod the node removes everything.
    let node = Node::start(root.path(), &[]).await;
    drop(pod);
    node.stop().await;
    shows("ip route; ip link; nft list ruleset", &[], &["10.77", "coracle"]).await;
}

#[tokio::test]
async fn a_pod_cidr_flag_that_differs_from_the_cluster_is_reported_until_they_agree() {
    let stage = Stage::new().await;
    stage.enter(At::A);
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::start(root.path(), &[FIRST]).await;
    node.receives(&[SECOND], &[OF_B], true);
    node.is_well(Some(&["--pod-cidr of node node-a", FIRST, SECOND, "without --pod-cidr"])).await;
    // No pod gets an address that the cluster has not assigned.
    let refused = node.native.reserve(&sandbox("a")).await.err().unwrap().to_string();
    assert!(refused.contains("--pod-cidr of node node-a is 10.77.1.0/24"), "{refused}");
    node.receives(&[FIRST], &[OF_B], true);
    node.is_well(None).await;
    node.is_reported("PodNetworkRecovered", &[]).await;
    drop(node.native.reserve(&sandbox("a")).await.unwrap());
    node.native.release_missing(node.native.known_sandboxes(), std::iter::empty::<&Identity>()).await;
    node.receives(&[FIRST], &[FIRST], true);
    node.is_well(Some(&["node-b", "node-a", FIRST, "delete node node-a"])).await;
    // A claim by a younger node is reported, and this node stays healthy.
    node.receives(&[FIRST], &[FIRST], false);
    node.is_well(None).await;
    node.is_reported("PodNetworkFailed", &["node-a", "node-b", FIRST, "delete node node-b"]).await;
    node.stop().await;

    let mut node = Node::start(root.path(), &[]).await;
    run("ip route add 10.77.5.128/25 via 192.0.2.254");
    node.receives(&[SECOND], &[OF_B], true);
    node.is_well(Some(&[SECOND, "route of this machine to 10.77.5.128/25 over "])).await;
    run("ip route del 10.77.5.128/25 via 192.0.2.254");
    node.is_well(None).await;
    assert_eq!(node.native.current(), [SECOND.parse().unwrap()]);
    node.stop().await;
}

#[tokio::test]
async fn incomplete_bridge_after_a_kill_is_repaired() {
    let stage = Stage::new().await;
    stage.enter(At::A);
    let root = tempfile::tempdir().unwrap();
    // The state after a kill: nothing is removed.
    drop(open(root.path(), &[FIRST]).await);
    let bridge = run("ip -o link show type bridge | grep -o 'coracle-[0-9a-f]*' | head -1").trim().to_owned();
    let half_made = format!("ip link del {bridge}; ip link add {bridge} type bridge");
    run(&half_made);
    let believes = format!("cat /proc/sys/net/ipv6/conf/{bridge}/accept_ra");
    assert_eq!(run(&believes), "1\n");
    let native = open(root.path(), &[FIRST]).await;
    shows(&format!("ip link show {bridge}"), &["alias pods of node node-a", "UP"], &[]).await;
    assert_eq!(run(&believes), "0\n");
    native::close(native).await.unwrap();
}

#[tokio::test]
async fn network_state_of_another_node_name_is_removed_without_pods() {
    let stage = Stage::new().await;
    let pod = Host::new().await;
    stage.enter(At::A);
    let root = tempfile::tempdir().unwrap();
    let left = "ip link show type bridge | grep alias; nft list tables";
    // The state after a kill, each time: nothing is removed.
    let native = open(root.path(), &[FIRST]).await;
    drop(native.reserve(&sandbox("old")).await.unwrap());
    native.attach(&sandbox("old").identity, pod.pid()).await.unwrap();
    let first = run("nft list tables");
    drop(native);
    drop(open_as("node-c", root.path(), &[SECOND]).await);
    let both = run("nft list tables");
    assert!(both.contains(first.trim()) && both != first, "a pod is still behind it: {both}");
    drop(pod);
    shows("ip link show", &[], &["master coracle"]).await;
    // The new node could not use a pod CIDR that the old one still has.
    drop(open_as("node-d", root.path(), &[FIRST]).await);
    let now = run(left);
    assert_eq!((now.matches("alias").count(), now.matches("table").count()), (1, 1), "{now}");
    assert!(now.contains("alias pods of node node-d"), "{now}");
    // The other case: from now on the engine provides the pod network.
    native::remove_stale(root.path().to_owned(), "node-d".to_owned()).await.unwrap();
    assert_eq!(run(left), "");
}

#[tokio::test]
async fn pod_cidr_that_contains_the_api_server_is_rejected() {
    let stage = Stage::new().await;
    stage.enter(At::A);
    let root = tempfile::tempdir().unwrap();
    let why = try_open("node-a", root.path(), &[AROUND_SERVER]).await.err().unwrap().to_string();
    assert!(why.contains(AROUND_SERVER) && why.contains("address 10.77.9.9 of the API server"), "{why}");
    // The node does not choose again a pod CIDR that now contains the API server's address.
    std::fs::write(root.path().join("range"), AROUND_SERVER).unwrap();
    let mut node = Node::start(root.path(), &[]).await;
    assert_ne!(node.native.current(), [AROUND_SERVER.parse().unwrap()]);
    node.receives(&[AROUND_SERVER], &[OF_B], true);
    node.is_well(Some(&["node-a", AROUND_SERVER, "address 10.77.9.9 of the API server", "--cluster-cidr"]))
        .await;
    shows("ip addr", &["coracle"], &["10.77.9"]).await;
    node.receives(&[SECOND], &[OF_B], true);
    node.is_well(None).await;
    node.stop().await;
}
