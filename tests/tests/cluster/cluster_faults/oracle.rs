//! The invariants of a healthy cluster: the nodes, the pods, the engines and the API agree, and nothing is missing.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use tests::{Container, Pod};

use crate::cluster_faults::cluster::{Cluster, Fate, MAPS, PODS, Promise};
use crate::cluster_faults::writer::has_all;

impl Cluster {
    /// Checks everything except these machines once. A container that runs twice fails the test at once.
    ///
    /// # Errors
    /// If an invariant is violated. The error describes it.
    pub async fn look(&self, away: &[usize]) -> Result<(), String> {
        let here = |on: &usize| !away.contains(on);
        let mut running: BTreeMap<String, Vec<(usize, Container)>> = BTreeMap::new();
        for on in (0..3).filter(here) {
            for container in self.machines[on].node.containers().await {
                // The container with which a kubelet probes the engine belongs to no pod.
                let Some(uid) = container.labels.get("io.kubernetes.pod.uid").cloned() else { continue };
                if container.is_running() && !container.is_sandbox() {
                    running.entry(uid).or_default().push((on, container));
                }
            }
        }
        for (uid, containers) in &running {
            assert!(containers.len() == 1, "{uid} runs twice: {containers:?}\n{}", self.state());
        }
        self.nodes_are_ready(away).await?;
        let acknowledged = self.writer.acknowledged();
        has_all(&self.get(&format!("{MAPS}?labelSelector=by%3Dwriter")).await?, &acknowledged)?;

        let list = self.get(PODS).await?;
        let pods = list["items"].as_array().ok_or("no list of pods")?;
        let mut pods: BTreeMap<&str, &Value> =
            pods.iter().map(|pod| (pod["metadata"]["uid"].as_str().unwrap_or_default(), pod)).collect();
        for (uid, promise) in &self.promises {
            let pod = pods.remove(uid.as_str()).map(|pod| Pod(pod.clone()));
            if !here(&promise.on) {
                continue;
            }
            let runs = running.remove(uid);
            self.is_kept(uid, promise, pod, runs).map_err(|why| format!("{promise:?} ({uid}): {why}"))?;
        }
        if let Some((uid, pod)) = pods.into_iter().next() {
            return Err(format!("nobody asked for {uid}: {pod}"));
        }
        match running.into_iter().next() {
            Some(stray) => Err(format!("nobody asked for what runs: {stray:?}")),
            None => Ok(()),
        }
    }

    async fn nodes_are_ready(&self, away: &[usize]) -> Result<(), String> {
        let list = self.get("/api/v1/nodes").await?;
        let nodes = list["items"].as_array().ok_or("no list of nodes")?;
        if nodes.len() != 3 {
            return Err(format!("there are other nodes: {list}"));
        }
        for node in nodes.iter().map(|node| Pod(node.clone())) {
            let is_of = |on: &usize| self.machines[*on].node.node == node.name();
            let is_fit = node.0["spec"]["taints"].as_array().is_none_or(Vec::is_empty);
            let is_well = node.is_ready() && is_fit;
            if !is_well && !away.iter().any(is_of) {
                return Err(format!("a node is not ready, or has taints: {}", node.0));
            }
        }
        Ok(())
    }

    fn is_kept(
        &self,
        uid: &str,
        promise: &Promise,
        pod: Option<Pod>,
        runs: Option<Vec<(usize, Container)>>,
    ) -> Result<(), String> {
        let (pod, runs) = match (promise.fate, pod) {
            (Fate::Goes, pod) => return gone(pod, runs),
            (Fate::Fickle, None) => return gone(None, runs),
            (Fate::Stays, None) => {
                panic!("{promise:?} ({uid}) was acknowledged and is not there\n{}", self.state())
            }
            (Fate::Unclaimed, pod) => {
                return match (pod, runs) {
                    (Some(pod), _) => Err(format!("it is there: {}", pod.0)),
                    (None, None) => Err("it does not run".to_owned()),
                    (None, Some(_)) => Ok(()),
                };
            }
            (Fate::Stays | Fate::Fickle, Some(pod)) => (pod, runs.ok_or("it does not run")?),
        };
        let (on, container) = &runs[0];
        let attempt = i64::from(container.attempt);
        let is_right = *on == promise.on
            && pod.text("/spec/nodeName") == self.machines[*on].node.node
            && pod.is_ready()
            && pod.text("/metadata/deletionTimestamp").is_empty()
            && pod.container_id("main") == container.id
            && pod.restarts("main") == attempt;
        if !is_right {
            return Err(format!("{container:?} runs on machine {on}, and the API says {}", pod.0));
        }
        let starts = self.starts(uid, promise);
        if starts == 0 || starts > attempt + 1 {
            return Err(format!("it began {starts} times, and its container says {attempt} restarts"));
        }
        Ok(())
    }

    /// The number of starts that a pod's container has recorded on its volume.
    fn starts(&self, uid: &str, promise: &Promise) -> i64 {
        let pods = self.machines[promise.on].node.root_dir().join("pods");
        let noted = fs::read_to_string(pods.join(uid).join("volumes/kubernetes.io~empty-dir/data/starts"));
        noted.unwrap_or_default().lines().count().try_into().unwrap()
    }
}

fn gone(pod: Option<Pod>, runs: Option<Vec<(usize, Container)>>) -> Result<(), String> {
    match (pod, runs) {
        (None, None) => Ok(()),
        (pod, runs) => Err(format!("it is to go, and is there: {pod:?} {runs:?}")),
    }
}
