//! A master and a node that has joined it: its kubelet runs the master's pods on the engine of this machine.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{IMAGE, Master, Pod, World, wait_until};

use crate::cluster::{Answer, Cluster};

/// The time limit for all pods of a table together.
const TABLE: Duration = Duration::from_secs(120);

/// A node and its master.
pub struct Node {
    /// The node; the first field, so that it is dropped first.
    pub world: World,
    /// Its master.
    pub cluster: Cluster,
}

/// A pod that runs to completion, and the expected output of its container `main`.
pub struct Case {
    /// Its name, with a namespace and a slash before it unless that is `default`.
    pub name: String,
    /// The pod, without the fields that [`Node::pod`] adds.
    pub pod: Value,
    /// The trimmed output; `{/status/podIP}` is replaced by that field of the pod.
    pub prints: String,
}

impl Node {
    /// A Ready node without a scheduler; tests bind its pods.
    pub async fn running(name: &str) -> Self {
        Self::joined(name, "--scheduler=false").await
    }

    /// A Ready node with a scheduler.
    pub async fn scheduled(name: &str) -> Self {
        Self::joined(name, "--scheduler=true").await
    }

    async fn joined(name: &str, flag: &str) -> Self {
        Self::with_flags(name, flag, &[]).await
    }

    /// A Ready node, with this flag of its master and these of its kubelet.
    pub async fn with_flags(name: &str, flag: &str, of_kubelet: &[&str]) -> Self {
        let flags =
            ["--advertise-address", "127.0.0.1", "--csr-approval-policy=insecure-always-approve", flag];
        let mut master = Master::new().with_flags(flags);
        master.start().await;
        let cluster = Cluster::of(master);
        let world = join_with(&cluster, name, of_kubelet).await;
        cluster.until("/api/v1/namespaces/default/serviceaccounts/default", |_| true).await;
        Self { world, cluster }
    }

    /// The Node object at the master.
    pub async fn object(&self) -> Value {
        self.cluster.get(&format!("/api/v1/nodes/{}", self.world.node)).await.is(200)
    }

    /// Adds the defaults of this suite to a pod: it is bound to the node, and is not restarted.
    pub fn pod(&self, name: &str, mut pod: Value) -> Value {
        let (_, name) = split(name);
        pod["metadata"]["name"] = json!(name);
        for (field, value) in [
            ("nodeName", json!(self.world.node)),
            ("automountServiceAccountToken", json!(false)),
            ("terminationGracePeriodSeconds", json!(2)),
            ("restartPolicy", json!("Never")),
        ] {
            if pod["spec"][field].is_null() {
                pod["spec"][field] = value;
            }
        }
        pod
    }

    pub async fn make(&self, name: &str, pod: Value) -> Value {
        self.try_to_make(name, pod).await.is(201)
    }

    /// Tries to create a pod; the request may be rejected.
    pub async fn try_to_make(&self, name: &str, pod: Value) -> Answer {
        let (namespace, _) = split(name);
        self.cluster.post(&format!("/api/v1/namespaces/{namespace}/pods"), &self.pod(name, pod)).await
    }

    /// Waits until the pod at the master satisfies the condition.
    pub async fn until(&self, name: &str, what: &str, mut is: impl FnMut(&Pod) -> bool) -> Pod {
        let path = path(name);
        let look = async || match self.cluster.get(&path).await {
            answer if answer.code == 200 => {
                let pod = Pod(answer.body);
                if is(&pod) { Ok(pod) } else { Err(pod.0["status"].to_string()) }
            }
            answer => Err(answer.text),
        };
        self.world.wait_within(TABLE, &format!("{name} {what}"), look).await
    }

    /// Waits until a pod is Ready.
    pub async fn ready(&self, name: &str) -> Pod {
        self.until(name, "to be Ready", Pod::is_ready).await
    }

    pub async fn log(&self, name: &str, container: &str) -> String {
        let answer = self.cluster.get(&format!("{}/log?container={container}", path(name))).await;
        assert_eq!(answer.code, 200, "{name}/{container}: {}", answer.text);
        answer.text
    }

    /// Waits until the log of a container satisfies the condition.
    pub async fn log_until(
        &self,
        name: &str,
        container: &str,
        what: &str,
        is: impl Fn(&str) -> bool,
    ) -> String {
        let address = format!("{}/log?container={container}", path(name));
        let look = async || match self.cluster.get(&address).await {
            answer if answer.code == 200 && is(&answer.text) => Ok(answer.text),
            answer => Err(format!("{} {:?}", answer.code, answer.text)),
        };
        self.world.wait_for(&format!("{name}/{container} to write {what}"), look).await
    }

    /// Runs a command in a container with kubectl. Returns its output.
    pub async fn exec(&self, name: &str, container: &str, command: &[&str]) -> String {
        let (namespace, pod) = split(name);
        let arguments = [&["exec", "-n", namespace, pod, "-c", container, "--"], command].concat();
        let output = self.cluster.kubectl(&arguments).await;
        assert_eq!(output.code, 0, "{arguments:?}: {output:?}");
        output.stdout
    }

    /// Creates all pods of a table at once and asserts that each succeeds with the expected output.
    pub async fn print(&self, cases: Vec<Case>) {
        for case in &cases {
            self.make(&case.name, case.pod.clone()).await;
        }
        let end = Instant::now() + TABLE;
        let mut faults = Vec::new();
        for case in &cases {
            let path = path(&case.name);
            let look = async || {
                let pod = Pod(self.cluster.get(&path).await.is(200));
                let has_ended = ["Succeeded", "Failed"].contains(&pod.phase());
                if has_ended { Ok(pod) } else { Err(pod.0["status"].to_string()) }
            };
            match wait_until(end.saturating_duration_since(Instant::now()), look).await {
                Err(seen) => faults.push(format!("{} does not end: {seen}", case.name)),
                Ok(pod) => {
                    let printed = self.log(&case.name, "main").await;
                    let expected = filled(&case.prints, &pod);
                    if pod.phase() != "Succeeded" || printed.trim() != expected {
                        let (name, status) = (&case.name, &pod.0["status"]);
                        faults.push(format!("{name} prints {printed:?}, not {expected:?}: {status}"));
                    }
                }
            }
        }
        assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), cases.len(), faults.join("\n"));
    }
}

/// A kubelet with that name that has joined the master and is Ready.
pub async fn join(cluster: &Cluster, name: &str) -> World {
    join_with(cluster, name, &[]).await
}

/// A kubelet with that name and these flags that has joined the master and is Ready.
pub async fn join_with(cluster: &Cluster, name: &str, flags: &[&str]) -> World {
    let printed = cluster.master.verb(&["join-string"]).await;
    let (_, hash) = printed.stdout.trim_end().split_once('#').unwrap();
    let line = format!("https://127.0.0.1:{}#{hash}", cluster.master.port);
    let mut world =
        World::new(name).await.with_flags(["--node-ip", "127.0.0.1", "--bootstrap", line.as_str()]);
    world = world.with_flags(flags.iter().copied());
    world.start().await;
    let path = format!("/api/v1/nodes/{}", world.node);
    let look = async || match cluster.get(&path).await {
        answer if answer.code == 200 && Pod(answer.body.clone()).is_ready() => Ok(()),
        answer => Err(answer.text),
    };
    world.wait_for("the node to be Ready at the master", look).await;
    world
}

/// The namespace and the name of a pod.
fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("default", name))
}

/// The API path of a pod.
pub fn path(name: &str) -> String {
    let (namespace, name) = split(name);
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}

/// Makes a valid pod name from words.
pub fn slug(words: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '/' { c.to_ascii_lowercase() } else { '-' };
    words.chars().map(plain).collect()
}

/// A container `main` that runs a shell script.
pub fn shell(script: &str) -> Value {
    json!({"name": "main", "image": IMAGE, "command": ["sh", "-c", script]})
}

/// Merges the fields of another object into an object, and removes those that are null.
pub fn with(mut object: Value, more: &Value) -> Value {
    let fields = object.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    fields.retain(|_, value| !value.is_null());
    object
}

/// Replaces JSON pointers in braces by the pod's fields.
fn filled(text: &str, pod: &Pod) -> String {
    let mut parts = text.split("{/");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (pointer, rest) = part.split_once('}').unwrap();
        filled += pod.text(&format!("/{pointer}"));
        filled += rest;
    }
    filled
}
