//! Three nodes of one master, and the expected fate of each pod that the master has acknowledged.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::{Bed, Clock, DEADLINE, Disk, IMAGE, Machine, Master, wait_until};

use crate::cluster_faults::writer::Writer;

/// The path of pods.
pub const PODS: &str = "/api/v1/namespaces/default/pods";
/// The path of ConfigMaps.
pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// A repeated request that takes longer has failed.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// The maximum time of a recovery on a busy machine.
pub const RECOVERY: Duration = Duration::from_secs(120);
/// A kubelet with a full disk neither evicts nor rejects pods, so that the effects of the disk itself are visible.
const NO_DISK_THRESHOLDS: [&str; 2] = ["--eviction-hard", "memory.available<1Mi"];
/// The size in megabytes of the disks that can be filled.
const SMALL: u32 = 48;

/// Counts its starts on its volume and ends on SIGTERM.
const MAIN: &str = "echo start >>/data/starts; trap 'exit 0' TERM; sleep 1000000 & wait";

/// The expected fate of a pod that the master has acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It exists until it is deleted.
    Stays,
    /// It is evicted when its node is unreachable: it tolerates that for a second.
    Fickle,
    /// It was deleted.
    Goes,
    /// A restored master does not know it: it continues to run.
    Unclaimed,
}

/// A pod that the master has acknowledged.
#[derive(Clone, Debug)]
pub struct Promise {
    pub name: String,
    /// The index of the machine on which it is to run.
    pub on: usize,
    pub fate: Fate,
}

impl Promise {
    /// The sequence number of the pod.
    pub fn number(&self) -> usize {
        self.name["pod-".len()..].parse().unwrap()
    }
}

/// The nodes of one master.
pub struct Cluster {
    /// The disk of the master, or of the last machine's kubelet. It is dropped before the folder that contains it.
    pub disk: Disk,
    pub bed: Bed,
    pub master: Master,
    pub machines: [Machine; 3],
    /// Pods by their UIDs.
    pub promises: BTreeMap<String, Promise>,
    pub writer: Writer,
    made: usize,
}

/// The location of the cluster's master, and the disk that can be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The master runs at the desk, on a disk that can be filled.
    Desk,
    /// The master runs on the first machine; the disk of the last machine's kubelet can be filled.
    Machine,
}

impl Cluster {
    /// Three healthy nodes with pods. The master uses the first of the clocks, and the kubelet of the first machine the second one.
    pub async fn new(home: Home, flags: &[&str], clocks: Option<&[Clock; 2]>) -> Self {
        let (bed, mut machines) = Bed::with([1, 1, 1]).await;
        let flags = [&["--scheduler=true"], flags].concat();
        let (mut master, disk) = match home {
            Home::Desk => {
                let master = Bed::master_at(&bed.address(), &flags);
                let disk = Disk::at(&master.data_dir(), SMALL);
                (master, disk)
            }
            Home::Machine => {
                let at = &machines[0].address;
                let master = Bed::master_at(at, &flags).on(machines[0].host(), at);
                // A machine gets the disks that exist when it boots.
                machines[2].power_off();
                let disk = Disk::at(&machines[2].node.root_dir(), SMALL);
                machines[2].boot().await;
                (master, disk)
            }
        };
        if let Some([of_master, of_kubelet]) = clocks {
            master = master.by_clock(of_master);
            machines[0].node.set_clock(of_kubelet);
        }
        master.start().await;
        join_all(machines.iter_mut().map(|machine| machine.join(&master, &NO_DISK_THRESHOLDS))).await;
        let writer = Writer::start(&master);
        let mut cluster = Self { disk, bed, master, machines, promises: BTreeMap::new(), writer, made: 0 };
        cluster.have_owner().await;
        for on in 0..3 {
            cluster.make(on, Fate::Stays).await;
            cluster.make(on, Fate::Stays).await;
        }
        cluster.holds(&[]).await;
        cluster
    }

    /// Gives some pods an owner that no controller reconciles: this cluster does not re-create them.
    async fn have_owner(&self) {
        let account = "/api/v1/namespaces/default/serviceaccounts/default";
        wait_until(DEADLINE, async || self.get(account).await).await.unwrap();
        let template = json!({
            "metadata": {"labels": {"app": "owned"}},
            "spec": {"containers": [{"name": "main", "image": IMAGE}]},
        });
        let owner = json!({
            "metadata": {"name": "owner"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "owned"}}, "template": template},
        });
        let path = "/apis/apps/v1/namespaces/default/replicasets";
        self.post(path, &owner).await.unwrap();
    }

    // --- requests to the master ---

    /// Creates a pod on a machine, whose kubelet need not run. Returns the pod's UID.
    pub async fn make(&mut self, on: usize, fate: Fate) -> String {
        self.make_of(on, fate, MAIN, 1).await
    }

    /// The same, with this script and termination grace period in seconds.
    pub async fn make_of(&mut self, on: usize, fate: Fate, script: &str, grace: u32) -> String {
        self.made += 1;
        let name = format!("pod-{}", self.made);
        // A host folder that outlives the pod.
        let keep = json!({"path": self.machines[on].disk().join("keep"), "type": "DirectoryOrCreate"});
        let volumes = json!([{"name": "data", "emptyDir": {}}, {"name": "keep", "hostPath": keep}]);
        let main = json!({
            "name": "main", "image": IMAGE, "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "keep", "mountPath": "/keep"}],
        });
        let tolerated = |reason: &str| {
            let seconds = if fate == Fate::Fickle { 1 } else { 300 };
            json!({"key": format!("node.kubernetes.io/{reason}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
        };
        let mut pod = json!({
            "metadata": {"name": name},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": self.machines[on].node.node},
                "tolerations": [tolerated("not-ready"), tolerated("unreachable")],
                "terminationGracePeriodSeconds": grace, "containers": [main], "volumes": volumes,
            },
        });
        if self.made.is_multiple_of(2) {
            let path = "/apis/apps/v1/namespaces/default/replicasets/owner";
            let owner = wait_until(DEADLINE, async || self.get(path).await).await.unwrap();
            let uid = &owner["metadata"]["uid"];
            pod["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "owner", "uid": uid}]);
        }
        let made = self.post(PODS, &pod).await.unwrap();
        let uid = made["metadata"]["uid"].as_str().unwrap().to_owned();
        self.promises.insert(uid.clone(), Promise { name, on, fate });
        uid
    }

    /// Deletes a pod at the master.
    pub async fn delete(&mut self, uid: &str) {
        let promise = self.promises.get_mut(uid).unwrap();
        promise.fate = Fate::Goes;
        let url = self.master.url(&format!("{PODS}/{}", promise.name));
        let answer = self.master.client().delete(url).timeout(DEADLINE).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
    }

    /// Creates a pod on each machine and deletes the oldest one there, without waiting.
    pub async fn churn(&mut self) {
        for on in 0..3 {
            self.make(on, Fate::Stays).await;
            let its =
                self.promises.iter().filter(|(_, promise)| promise.on == on && promise.fate == Fate::Stays);
            let oldest = its.min_by_key(|(_, promise)| promise.number()).unwrap().0.clone();
            self.delete(&oldest).await;
        }
    }

    /// Reads an object or a list from the master.
    ///
    /// # Errors
    /// If the master does not answer with it.
    pub async fn get(&self, path: &str) -> Result<Value, String> {
        let request = self.master.client().get(self.master.url(path));
        answer(request.timeout(PATIENCE), 200).await
    }

    /// Creates an object at the master. Returns the object as created.
    ///
    /// # Errors
    /// If the master does not create it.
    pub async fn post(&self, path: &str, object: &Value) -> Result<Value, String> {
        let request = self.master.client().post(self.master.url(path)).json(object);
        // Not repeated, so it may take longer on a busy machine.
        answer(request.timeout(DEADLINE), 201).await
    }

    // --- waiting ---

    /// Waits until all promises hold, except for pods on these machines.
    pub async fn holds(&mut self, away: &[usize]) {
        let held = wait_until(RECOVERY, async || self.look(away).await).await;
        if let Err(seen) = held {
            panic!("{seen}\n{}", self.state());
        }
        // [`Cluster::look`] fails if a deleted pod comes back.
        self.promises.retain(|_, promise| promise.fate != Fate::Goes);
    }

    /// The same after a fault that began or ended at `since`; prints the duration. The `kept` containers have continued to run.
    pub async fn recovers(&mut self, fault: &str, since: Instant, kept: &[(String, String)], away: &[usize]) {
        self.holds(away).await;
        println!("recovered: {fault} in {} ms", since.elapsed().as_millis());
        let now = self.containers(away).await;
        let is_here =
            |uid: &String| self.promises.get(uid).is_some_and(|promise| !away.contains(&promise.on));
        for (uid, container) in kept.iter().filter(|(uid, _)| is_here(uid)) {
            assert_eq!(
                now.get(uid),
                Some(container),
                "{fault}: {:?} was touched\n{}",
                self.promises[uid],
                self.state()
            );
        }
    }

    /// The running containers of pods that are to stay, by UID, except on these machines.
    pub async fn kept(&self, but: &[usize]) -> Vec<(String, String)> {
        self.containers(but).await.into_iter().collect()
    }

    async fn containers(&self, but: &[usize]) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for (number, machine) in self.machines.iter().enumerate() {
            if but.contains(&number) {
                continue;
            }
            for container in machine.node.containers().await {
                let Some(uid) = container.labels.get("io.kubernetes.pod.uid").cloned() else { continue };
                if container.is_running() && !container.is_sandbox() {
                    found.insert(uid, container.id);
                }
            }
        }
        found
    }

    /// The state of the cluster, for the message of a failed test.
    pub fn state(&self) -> String {
        let logs = self
            .machines
            .iter()
            .map(|machine| format!("{}:\n{}", machine.node.node, machine.node.log_tail()));
        let log = self.master.log();
        let last: Vec<&str> = log.lines().rev().take(40).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        format!("{}\nmaster:\n{}", logs.collect::<Vec<_>>().join("\n"), last.join("\n"))
    }
}

async fn answer(request: reqwest::RequestBuilder, expected: u16) -> Result<Value, String> {
    let answer = request.send().await.map_err(|error| format!("{error:?}"))?;
    let code = answer.status().as_u16();
    let text = answer.text().await.map_err(|error| error.to_string())?;
    if code != expected {
        return Err(format!("{code} {text}"));
    }
    serde_json::from_str(&text).map_err(|error| error.to_string())
}
