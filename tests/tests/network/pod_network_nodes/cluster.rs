//! A cluster on a test bed: a master at the desk, and machines whose kubelets are its nodes.

use std::fs;

use futures_util::future::join_all;
use ipnet::IpNet;
use serde_json::{Value, json};
use tests::{Bed, Machine, Master, Pod, wait_until};

use crate::pod_network_nodes::asking::{answering, socket};

/// The name of the answering pod on each machine.
pub const WEB: &str = "web";

/// The machines and the master of a cluster.
pub struct Cluster<const N: usize> {
    pub bed: Bed,
    pub master: Master,
    pub machines: [Machine; N],
}

impl<const N: usize> Cluster<N> {
    /// Machines on these segments whose kubelets have joined the master, with an answering pod on each.
    pub async fn of(segments: [u8; N]) -> Self {
        let cluster = Self::joined(Bed::with(segments).await, &[]).await;
        cluster.answer().await;
        for machine in &cluster.machines {
            cluster.wait_for_node(machine, "a range and Ready", is_ready_with_range).await;
        }
        cluster
    }

    /// The same, with pods that have an address of each of these cluster CIDRs.
    pub async fn with_ranges(bed: (Bed, [Machine; N]), ranges: &[&str]) -> Self {
        let cluster = Self::joined(bed, &["--cluster-cidr", &ranges.join(",")]).await;
        for machine in &cluster.machines {
            let is_in = |node: &Value| is_ready_with_range(node) && ranges_of(node).len() == ranges.len();
            let node = cluster.wait_for_node(machine, "ranges and Ready", is_in).await;
            // A pod keeps the addresses with which it starts.
            let bridges = ranges_of(&node).into_iter().map(|range| {
                let first = range.hosts().find(|ip| *ip != range.network()).unwrap();
                format!("{first}/{}", range.prefix_len())
            });
            let bridges: Vec<_> = bridges.collect();
            let has_all = |shown: &str| bridges.iter().all(|address| shown.contains(address));
            shows(machine, "ip address show type bridge", &bridges.join(" and "), has_all).await;
        }
        cluster.answer().await;
        cluster
    }

    async fn joined((bed, machines): (Bed, [Machine; N]), flags: &[&str]) -> Self {
        let master = bed.master(flags).await;
        let mut cluster = Self { bed, master, machines };
        let master = &cluster.master;
        join_all(cluster.machines.iter_mut().map(|machine| machine.join(master, &[]))).await;
        cluster
    }

    /// Starts an answering pod on each machine.
    async fn answer(&self) {
        self.machines.iter().for_each(|machine| machine.node.write("web.yaml", &answering(WEB)));
        for machine in &self.machines {
            machine.node.wait_ready(WEB).await;
        }
    }

    /// Runs kubectl as administrator. Returns its output.
    pub async fn kubectl(&self, arguments: &[&str]) -> String {
        let admin = self.master.data_dir().join("admin.kubeconfig");
        let output = self.master.kubectl(&admin, arguments).await;
        assert_eq!(output.code, 0, "kubectl {arguments:?}: {output:?}");
        output.stdout
    }

    /// Runs `kubectl VERB -f` with these objects.
    pub async fn kubectl_with(&self, verb: &str, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let file = self.master.data_dir().join("test-objects.json");
        fs::write(&file, list.to_string()).unwrap();
        self.kubectl(&[verb, "-f", file.to_str().unwrap()]).await;
    }

    /// The Node object of a machine.
    ///
    /// # Errors
    /// If the master has no such Node.
    pub async fn node(&self, machine: &Machine) -> Result<Value, String> {
        let path = format!("/api/v1/nodes/{}", machine.node.node);
        let (code, text) = self.master.get_as_admin(&path).await;
        if code == 200 { serde_json::from_str(&text).map_err(|error| error.to_string()) } else { Err(text) }
    }

    /// Waits until the Node object of a machine satisfies a condition.
    pub async fn wait_for_node(
        &self,
        machine: &Machine,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let look = async || {
            let node = self.node(machine).await?;
            if holds(&node) { Ok(node) } else { Err(format!("it is {node}")) }
        };
        machine.node.wait_for(&format!("the node to have {what}"), look).await
    }

    /// The primary pod CIDR of a node.
    pub async fn range(&self, machine: &Machine) -> String {
        let has_range = |node: &Value| node["spec"]["podCIDR"].is_string();
        let node = self.wait_for_node(machine, "a range", has_range).await;
        node["spec"]["podCIDR"].as_str().unwrap().to_owned()
    }
}

/// Whether a node has a pod CIDR and is Ready.
pub fn is_ready_with_range(node: &Value) -> bool {
    node["spec"]["podCIDR"].is_string() && condition(node, "Ready")["status"] == "True"
}

pub fn condition<'a>(node: &'a Value, kind: &str) -> &'a Value {
    let conditions = node["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

/// The answering pod of a machine, once it is Ready.
pub async fn web(machine: &Machine) -> Pod {
    machine.node.wait_ready(WEB).await
}

/// The pod CIDRs of a node, the primary one first.
pub fn ranges_of(node: &Value) -> Vec<IpNet> {
    let all = node["spec"]["podCIDRs"].as_array();
    all.into_iter().flatten().filter_map(|range| range.as_str()?.parse().ok()).collect()
}

/// The address and port on which a pod answers.
pub fn at(pod: &Pod) -> String {
    socket(pod.ip(), 80)
}

/// Waits until the output of a shell command on a machine is as expected.
pub async fn shows(machine: &Machine, line: &str, what: &str, is_right: impl Fn(&str) -> bool) {
    let look = async || match machine.run(line) {
        shown if is_right(&shown) => Ok(()),
        other => Err(other),
    };
    let waited = wait_until(tests::DEADLINE, look).await;
    waited.unwrap_or_else(|seen| {
        panic!(
            "{}: `{line}` should show {what}, but shows {seen}\n{}",
            machine.node.node,
            machine.node.log_tail()
        )
    });
}
