//! Three nodes of one master, and what the master has promised of pods.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::{Bed, Clock, DEADLINE, Disk, IMAGE, Machine, Master, wait_until};

use crate::writer::Writer;

/// Where pods are.
pub const PODS: &str = "/api/v1/namespaces/default/pods";
/// Where ConfigMaps are.
pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// A request that takes longer is lost.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// How long anything may take until it is as it should be, on a busy machine.
pub const RECOVERY: Duration = Duration::from_secs(120);
/// The taint of a node whose disk is full.
pub const DISK_PRESSURE: &str = "node.kubernetes.io/disk-pressure";
/// The disks that can be filled, in megabytes.
const SMALL: u32 = 48;

/// Counts its starts on its volume and ends when it is told to.
const MAIN: &str = "echo start >>/data/starts; trap 'exit 0' TERM; sleep 1000000 & wait";

/// What may become of a pod that the master has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is there until somebody deletes it.
    Stays,
    /// It goes when its node is not heard of for a while: it tolerates that for a second.
    Fickle,
    /// It was deleted.
    Goes,
    /// A restored master does not know it: it runs on.
    Unclaimed,
}

/// A pod that the master has taken.
#[derive(Clone, Debug)]
pub struct Promise {
    pub name: String,
    /// The number of the machine on which it is to run.
    pub on: usize,
    pub fate: Fate,
}

impl Promise {
    /// The how manieth pod it is of all that were made.
    pub fn number(&self) -> usize {
        self.name["pod-".len()..].parse().unwrap()
    }
}

/// Nodes of one master.
pub struct Cluster {
    /// The disk of the master, or of the last machine's kubelet. It goes before the folder that it is in.
    pub disk: Disk,
    pub bed: Bed,
    pub master: Master,
    pub machines: [Machine; 3],
    /// Pods by their UIDs.
    pub promises: BTreeMap<String, Promise>,
    pub writer: Writer,
    /// The machine whose kubelet may say that its disk is full: it does so for minutes after there is room.
    pub short: Option<usize>,
    made: usize,
}

/// Where the master of a cluster runs, and whose disk can be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// At the desk, on a disk that can be filled.
    Desk,
    /// On the first machine; the disk of the last machine's kubelet can be filled.
    Machine,
}

impl Cluster {
    /// Three nodes with pods, where all is well. The master goes by that clock, and so does the kubelet of the first machine by its own.
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
                // A machine has the disks that there are when it boots.
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
        join_all(machines.iter_mut().map(|machine| machine.join(&master, &[]))).await;
        let writer = Writer::start(&master);
        let mut cluster =
            Self { disk, bed, master, machines, promises: BTreeMap::new(), writer, short: None, made: 0 };
        cluster.have_owner().await;
        for on in 0..3 {
            cluster.make(on, Fate::Stays).await;
            cluster.make(on, Fate::Stays).await;
        }
        cluster.holds(&[]).await;
        cluster
    }

    /// Some pods have an owner that nobody looks after: it is not this cluster that makes them anew.
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

    // --- what the master is asked for ---

    /// Has the master take a pod for a machine, whose kubelet need not be there; its UID.
    pub async fn make(&mut self, on: usize, fate: Fate) -> String {
        self.make_of(on, fate, MAIN, 1).await
    }

    /// The same, with that script and so many seconds to end.
    pub async fn make_of(&mut self, on: usize, fate: Fate, script: &str, grace: u32) -> String {
        self.made += 1;
        let name = format!("pod-{}", self.made);
        // What is kept of a pod that has gone.
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
        // Of what a full disk keeps away from pods, nothing would be seen with none there.
        let full = json!({"key": DISK_PRESSURE, "operator": "Exists", "effect": "NoSchedule"});
        let mut pod = json!({
            "metadata": {"name": name},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": self.machines[on].node.node},
                "tolerations": [tolerated("not-ready"), tolerated("unreachable"), full],
                "terminationGracePeriodSeconds": grace, "containers": [main], "volumes": volumes,
            },
        });
        if self.made.is_multiple_of(2) {
            let owner = self.get("/apis/apps/v1/namespaces/default/replicasets/owner").await.unwrap();
            let uid = &owner["metadata"]["uid"];
            pod["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "owner", "uid": uid}]);
        }
        let made = self.post(PODS, &pod).await.unwrap();
        let uid = made["metadata"]["uid"].as_str().unwrap().to_owned();
        self.promises.insert(uid.clone(), Promise { name, on, fate });
        uid
    }

    /// Has the master delete a pod.
    pub async fn delete(&mut self, uid: &str) {
        let promise = self.promises.get_mut(uid).unwrap();
        promise.fate = Fate::Goes;
        let url = self.master.url(&format!("{PODS}/{}", promise.name));
        let answer = self.master.client().delete(url).timeout(PATIENCE).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
    }

    /// Has the master take a pod for each machine and delete the oldest one there; nothing is waited for.
    pub async fn churn(&mut self) {
        for on in 0..3 {
            self.make(on, Fate::Stays).await;
            let its =
                self.promises.iter().filter(|(_, promise)| promise.on == on && promise.fate == Fate::Stays);
            let oldest = its.min_by_key(|(_, promise)| promise.number()).unwrap().0.clone();
            self.delete(&oldest).await;
        }
    }

    /// What the master has at a path.
    ///
    /// # Errors
    /// That it does not say so.
    pub async fn get(&self, path: &str) -> Result<Value, String> {
        let request = self.master.client().get(self.master.url(path));
        answer(request, 200).await
    }

    /// Has the master make something; what it has then.
    ///
    /// # Errors
    /// That it does not.
    pub async fn post(&self, path: &str, object: &Value) -> Result<Value, String> {
        let request = self.master.client().post(self.master.url(path)).json(object);
        answer(request, 201).await
    }

    // --- what is waited for ---

    /// All that was promised comes to hold, but for what is on these machines.
    pub async fn holds(&mut self, away: &[usize]) {
        let held = wait_until(RECOVERY, async || self.look(away).await).await;
        if let Err(seen) = held {
            panic!("{seen}\n{}", self.state());
        }
        // What has gone is not to come back; who looks says so.
        self.promises.retain(|_, promise| promise.fate != Fate::Goes);
    }

    /// The same after a fault that began or ended then; prints how long it took. These containers have run on.
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

    /// What runs of pods that are to stay, by their UIDs, but on these machines.
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
                if container.is_running() && !container.is_sandbox() {
                    found.insert(container.labels["io.kubernetes.pod.uid"].clone(), container.id);
                }
            }
        }
        found
    }

    /// What helps to see why.
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
    let answer = request.timeout(PATIENCE).send().await.map_err(|error| format!("{error:?}"))?;
    let code = answer.status().as_u16();
    let text = answer.text().await.map_err(|error| error.to_string())?;
    if code != expected {
        return Err(format!("{code} {text}"));
    }
    serde_json::from_str(&text).map_err(|error| error.to_string())
}
