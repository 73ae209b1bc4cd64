//! (g) Compares pods that a master assigns with static pods on the same node: the latency that the API path adds.

use serde_json::{Value, json};
use tests::{IMAGE, Master, Pod, World};

use crate::arguments::Arguments;
use crate::clock::{Clock, Happening, now};
use crate::manifests;
use crate::shared::numbers::{median, share};
use crate::shared::table::Table;

/// Maximum latency that the API path may add, in milliseconds.
const TARGET: f64 = 30.0;
const PODS: &str = "/api/v1/namespaces/default/pods";
/// Number of kinds of pods that are measured in turns.
const SORTS: usize = 4;

/// A master and a node that has joined it.
struct Joined {
    master: Master,
    world: World,
    client: reqwest::Client,
    clock: Clock,
}

/// Runs the measurement and adds its results to the table.
pub async fn measure(arguments: &Arguments, table: &mut Table) {
    let joined = Joined::new().await;
    let mut times = [const { Vec::new() }; SORTS];
    for round in 0..arguments.rounds {
        eprint!("\r(g) one pod, round {} of {} ", round + 1, arguments.rounds);
        for turn in 0..SORTS {
            let sort = (round + turn) % SORTS;
            times[sort].push(match sort {
                0 => joined.by_file(round).await,
                1 => joined.by_master(&format!("bound-{round}"), &joined.world.node, true).await,
                2 => joined.by_master(&format!("bare-{round}"), &joined.world.node, false).await,
                _ => joined.by_master(&format!("free-{round}"), "", true).await,
            });
        }
    }
    eprintln!();
    let [own, bound, bare, free] = &times;
    for (what, target, times) in [
        ("(g) created -> running, beyond file written -> running", TARGET, free),
        ("(g) the same with a node named", f64::INFINITY, bound),
        ("(g) the same without a token", f64::INFINITY, bare),
    ] {
        let (own, late) = (median(own), share(times, 0.9));
        let detail = format!("{:.0} ms (9 of 10 within {late:.0}), by a file {own:.0} ms", median(times));
        table.at_most(what, target, median(times) - own, " ms", detail);
    }
}

impl Joined {
    async fn new() -> Self {
        let mut master = Master::new().with_flags([
            "--advertise-address=127.0.0.1",
            "--csr-approval-policy=insecure-always-approve",
            "--scheduler=true",
        ]);
        master.start().await;
        let line = master.join_line().await;
        let mut world =
            World::new("joined").await.with_flags(["--node-ip", "127.0.0.1", "--bootstrap", line.as_str()]);
        world.start().await;
        let (client, clock) = (master.client(), Clock::start(&world.engine).await);
        let joined = Self { master, world, client, clock };
        let ready = async || {
            let node = joined.get(&format!("/api/v1/nodes/{}", joined.world.node)).await?;
            joined.get("/api/v1/namespaces/default/serviceaccounts/default").await?;
            if Pod(node.clone()).is_ready() { Ok(()) } else { Err(node.to_string()) }
        };
        joined.world.wait_for("the node to be Ready at the master", ready).await;
        joined
    }

    async fn get(&self, path: &str) -> Result<Value, String> {
        match self.master.send_request(&self.client, path).await? {
            (200, text) => serde_json::from_str(&text).map_err(|error| error.to_string()),
            (code, text) => Err(format!("{code} {text}")),
        }
    }

    /// Milliseconds from writing a manifest to the start of its containers.
    async fn by_file(&self, round: usize) -> f64 {
        let (world, name, file) = (&self.world, format!("pod-{round}"), format!("{round}.yaml"));
        let begin = now();
        world.write(&file, &manifests::one_container(&name));
        let end = self.clock.pod(&world.pod_name(&name), Happening::Started).await;
        world.wait_ready(&name).await;
        world.remove(&file);
        world.wait_gone(&name).await;
        (end - begin) as f64 / 1e6
    }

    /// Milliseconds from creating a pod, with or without a node name, to the start of its containers.
    async fn by_master(&self, name: &str, node: &str, has_token: bool) -> f64 {
        let name = self.world.pod_name(name);
        let command = ["sh", "-c", "trap 'exit 0' TERM; sleep 86400 & wait"];
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {
                "nodeName": node, "terminationGracePeriodSeconds": 10, "automountServiceAccountToken": has_token,
                "containers": [{"name": "app", "image": IMAGE, "command": command}],
            },
        });
        let begin = now();
        let made = self.client.post(self.master.url(PODS)).json(&pod).send().await.unwrap();
        assert!(made.status().is_success(), "{}", made.text().await.unwrap());
        let end = self.clock.pod(&name, Happening::Started).await;
        let path = format!("{PODS}/{name}");
        let ready = async || {
            let pod = Pod(self.get(&path).await?);
            if pod.is_ready() { Ok(()) } else { Err(pod.0.to_string()) }
        };
        self.world.wait_for("the pod to be Ready at the master", ready).await;
        self.client.delete(self.master.url(&path)).send().await.unwrap();
        let gone = async || match self.get(&path).await {
            Err(why) if why.starts_with("404") => Ok(()),
            other => Err(format!("{other:?}")),
        };
        self.world.wait_for("the pod to go from the master", gone).await;
        (end - begin) as f64 / 1e6
    }
}
