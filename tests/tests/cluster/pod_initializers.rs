//! Tests of pod initializers (`docs/pod-initializers.md`): each pod passes each of them once and in order, also when they are killed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};
use reqwest::Method;
use serde_json::{Value, json};
use tests::{DEADLINE, Master, Output, Process, Python, trusting, wait_until};
use tokio::task::JoinHandle;

const PODS: &str = "/api/v1/namespaces/default/pods";
const LIMITS: &str = "example.com/limits";
const IMAGES: &str = "example.com/images";
const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A master with two pod initializers, and the roles for them.
struct Bed {
    master: Master,
}

impl Bed {
    async fn new() -> Self {
        let gates = format!("{LIMITS},{IMAGES}");
        // No kubelet sends heartbeats here, so a long grace period keeps nodes Ready for the whole test.
        let flags = ["--scheduling-gates", &gates, "--scheduler=true", "--node-monitor-grace-period=1h"];
        let mut master = Master::new().with_flags(flags);
        master.start().await;
        let bed = Self { master };
        bed.kubectl(&["apply", "-f", example("initializers.yaml").to_str().unwrap()]).await;
        bed.node("a").await;
        bed
    }

    fn admin(&self) -> PathBuf {
        self.master.data_dir().join("admin.kubeconfig")
    }

    async fn tried(&self, arguments: &[&str]) -> Output {
        self.master.kubectl(&self.admin(), arguments).await
    }

    async fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.tried(arguments).await;
        assert_eq!(output.code, 0, "kubectl {arguments:?}: {output:?}\n{}", self.master.log());
        output.stdout.trim_end().to_owned()
    }

    /// Creates a node with room for all pods and waits until pods can be scheduled there.
    async fn node(&self, name: &str) {
        let has = json!({"cpu": "1000", "memory": "1Ti", "pods": "1000"});
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let node = json!({"metadata": {"name": name}, "status": {"capacity": has, "allocatable": has, "conditions": ready}});
        self.send("", Method::POST, "/api/v1/nodes", &node).await.made();
        self.shows(&format!("/api/v1/nodes/{name}"), |node| node["spec"]["taints"].is_null()).await;
    }

    /// A token of a service account.
    async fn token(&self, account: &str, namespace: &str) -> String {
        self.kubectl(&["create", "token", account, "-n", namespace]).await
    }

    /// A kubeconfig with a token of a service account of `kube-system`.
    async fn kubeconfig(&self, account: &str) -> PathBuf {
        let admin = self.master.admin().unwrap();
        let cluster =
            json!({"server": admin.server, "certificate-authority-data": STANDARD.encode(admin.authority)});
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": self.token(account, "kube-system").await}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        let path = self.master.data_dir().join(format!("{account}.kubeconfig"));
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// Sends a request with a token, or as administrator if the token is empty. Patches are strategic merge patches.
    async fn send(&self, token: &str, method: Method, path: &str, body: &Value) -> Answer {
        let client = match token {
            "" => self.master.client(),
            _ => trusting(&self.master.admin().unwrap().authority, None).unwrap(),
        };
        let media_type = match method {
            Method::PATCH => "application/strategic-merge-patch+json",
            _ => "application/json",
        };
        let mut request = client.request(method, self.master.url(path)).header("content-type", media_type);
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        let response = request.body(body.to_string()).send().await.unwrap();
        let code = response.status().as_u16();
        Answer { code, body: response.json().await.unwrap() }
    }

    async fn post(&self, token: &str, pod: &Value) -> Answer {
        self.send(token, Method::POST, PODS, pod).await
    }

    /// Patches a pod or a subresource (`p/finalize`).
    async fn patch(&self, token: &str, pod: &str, patch: &Value) -> Answer {
        self.send(token, Method::PATCH, &format!("{PODS}/{pod}"), patch).await
    }

    /// Waits until the object at a path fulfils the condition.
    async fn shows(&self, path: &str, is_right: impl Fn(&Value) -> bool) -> Value {
        let look = async || {
            let (_, text) = self.master.get_as_admin(path).await;
            let object: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            if is_right(&object) { Ok(object) } else { Err(text) }
        };
        wait_until(DEADLINE, look)
            .await
            .unwrap_or_else(|seen| panic!("{path}: {seen}\n{}", self.master.log()))
    }

    async fn kube(&self) -> Api<Pod> {
        let file = Kubeconfig::read_from(self.admin()).unwrap();
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
        Api::default_namespaced(Client::try_from(config).unwrap())
    }
}

/// A response of the master.
#[derive(Debug)]
struct Answer {
    code: u16,
    body: Value,
}

impl Answer {
    #[track_caller]
    fn made(self) -> Value {
        assert!(matches!(self.code, 200 | 201), "{self:?}");
        self.body
    }

    #[track_caller]
    fn refused(self, code: u16, words: &str) {
        let message = self.body["message"].as_str().unwrap_or_default();
        assert!(self.code == code && message.contains(words), "{self:?} is not {words}");
    }
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("examples/pod-initializers").join(name)
}

fn pod(name: &str, mut spec: Value) -> Value {
    spec["containers"] = json!([{"name": "c", "image": "web:1"}]);
    json!({"metadata": {"name": name}, "spec": spec})
}

/// A patch that removes a scheduling gate and adds fields to the spec.
fn passing(gate: &str, mut spec: Value) -> Value {
    spec["schedulingGates"] = json!([{"$patch": "delete", "name": gate}]);
    json!({"spec": spec})
}

/// A spec with one container that has these fields.
fn with(fields: Value) -> Value {
    let mut container = fields;
    container["name"] = "c".into();
    json!({"containers": [container]})
}

/// State of a pod in a watch event.
#[derive(Clone, Debug, PartialEq)]
struct Step {
    gates: Vec<String>,
    has_limits: bool,
    has_digest: bool,
    is_bound: bool,
}

impl Step {
    fn of(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref().unwrap();
        let container = &spec.containers[0];
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        Self {
            gates: spec.scheduling_gates.iter().flatten().map(|gate| gate.name.clone()).collect(),
            has_limits: limits.is_some_and(|limits| limits.contains_key("memory")),
            has_digest: container.image.as_deref() == Some(&format!("web:1@{DIGEST}")),
            is_bound: spec.node_name.is_some(),
        }
    }
}

/// All states of all pods, from a watch.
struct Steps {
    seen: Arc<Mutex<BTreeMap<String, Vec<Step>>>>,
    follower: JoinHandle<()>,
}

impl Steps {
    async fn of(pods: Api<Pod>) -> Self {
        let seen = Arc::new(Mutex::new(BTreeMap::<String, Vec<Step>>::new()));
        let from = pods.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        let into = seen.clone();
        let follower = tokio::spawn(async move {
            let mut events = pods.watch(&WatchParams::default(), &from).await.unwrap().boxed();
            while let Some(event) = events.try_next().await.unwrap() {
                let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else { continue };
                let mut all = into.lock().unwrap();
                let steps = all.entry(pod.name_any()).or_default();
                let step = Step::of(&pod);
                if steps.last() != Some(&step) {
                    steps.push(step);
                }
            }
        });
        Self { seen, follower }
    }

    fn bound(&self) -> usize {
        let all = self.seen.lock().unwrap();
        all.values().filter(|steps| steps.last().is_some_and(|step| step.is_bound)).count()
    }

    async fn reach(&self, bound: usize, logs: impl Fn() -> String) {
        let look = async || match self.bound() {
            count if count >= bound => Ok(()),
            count => Err(format!("{count} of {bound} are bound")),
        };
        wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{seen}\n{}", logs()));
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

/// A process that runs the example initializer.
struct Initializer {
    python: Python,
    arguments: Vec<String>,
    kubeconfig: PathBuf,
    process: Process,
}

impl Initializer {
    fn start(what: &str, kubeconfig: &Path) -> Self {
        let python = Python::new();
        let digests = python.home().join("digests.json");
        std::fs::write(&digests, json!({"web:1": DIGEST}).to_string()).unwrap();
        let (script, what) = (example("initializer.py").display().to_string(), what.to_owned());
        let arguments =
            [script, what, "--digests".to_owned(), digests.display().to_string(), "--again=1".to_owned()];
        let process = Self::run(&python, &arguments, kubeconfig);
        Self { python, arguments: arguments.into(), kubeconfig: kubeconfig.to_owned(), process }
    }

    fn run(python: &Python, arguments: &[String], kubeconfig: &Path) -> Process {
        let mut command = python.command("python").into_std();
        command.args(arguments).env("KUBECONFIG", kubeconfig);
        Process::start(&mut command, &python.home().join("log"))
    }

    /// Kills the process (`SIGKILL`) and restarts it.
    fn again(&mut self) {
        self.process.kill();
        self.process = Self::run(&self.python, &self.arguments, &self.kubeconfig);
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.python.home().join("log")).unwrap_or_default()
    }
}

#[tokio::test]
async fn each_initializer_handles_each_pod_once_and_in_order_despite_kills() {
    const CLIENTS: usize = 8;
    const EACH: usize = 25;
    let bed = Bed::new().await;
    let steps = Steps::of(bed.kube().await).await;
    let limits = bed.kubeconfig("limits-initializer").await;
    let images = bed.kubeconfig("images-initializer").await;
    let mut copies = [("limits", &limits), ("limits", &limits), ("images", &images), ("images", &images)]
        .map(|(what, kubeconfig)| Initializer::start(what, kubeconfig));
    let logs = |copies: &[Initializer]| {
        let logs: Vec<String> = copies.iter().map(Initializer::log).collect();
        format!("{}\n{}", logs.join("\n---\n"), bed.master.log())
    };
    let client = async |client: usize| {
        for number in 0..EACH {
            bed.post("", &pod(&format!("p-{client}-{number}"), json!({}))).await.made();
        }
    };
    let clients = futures_util::future::join_all((0..CLIENTS).map(client));
    let faults = async {
        // Kill and restart one copy of each initializer, then the other copy of each.
        for (bound, pair) in [(20, [0, 2]), (60, [1, 3])] {
            steps.reach(bound, || logs(&copies)).await;
            pair.into_iter().for_each(|at| copies[at].again());
        }
        // Meanwhile no copy of `limits` runs.
        steps.reach(100, || logs(&copies)).await;
        copies[0].process.kill();
        copies[1].again();
    };
    tokio::join!(clients, faults);
    steps.reach(CLIENTS * EACH, || logs(&copies)).await;

    let step = |gates: &[&str], has_limits, has_digest, is_bound| {
        let gates = gates.iter().map(|gate| (*gate).to_owned()).collect();
        Step { gates, has_limits, has_digest, is_bound }
    };
    let expected = [
        step(&[LIMITS, IMAGES], false, false, false),
        step(&[IMAGES], true, false, false),
        step(&[], true, true, false),
        step(&[], true, true, true),
    ];
    let seen = steps.seen.lock().unwrap().clone();
    assert_eq!(seen.len(), CLIENTS * EACH);
    for (name, steps) in seen {
        assert_eq!(steps, expected, "{name}\n{}", logs(&copies));
    }
}

#[tokio::test]
async fn rejected_pod_is_retried_and_blocks_no_other_pod() {
    let bed = Bed::new().await;
    bed.post("", &pod("large", json!({}))).await.made();
    let mut small = pod("small", json!({}));
    small["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1", "memory": "64Mi"}});
    // The initializer sets a higher limit on a container without limits.
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [{"type": "Container", "max": {"memory": "100Mi"}}]}});
    bed.send("", Method::POST, "/api/v1/namespaces/default/limitranges", &range).await.made();
    let initializer = Initializer::start("limits", &bed.kubeconfig("limits-initializer").await);
    let look = async || {
        let log = initializer.log();
        if log.contains("default/large waits at example.com/limits") { Ok(()) } else { Err(log) }
    };
    wait_until(DEADLINE, look).await.unwrap_or_else(|log| panic!("no request is rejected: {log}"));
    bed.post("", &small).await.made();
    let has_passed = |pod: &Value| pod["spec"]["schedulingGates"][0]["name"] == IMAGES;
    bed.shows(&format!("{PODS}/small"), has_passed).await;
    bed.kubectl(&["delete", "limitrange", "r"]).await;
    bed.shows(&format!("{PODS}/large"), has_passed).await;
}

#[tokio::test]
async fn scheduling_gates_are_removed_in_order_by_authorized_users() {
    let bed = Bed::new().await;
    bed.kubectl(&["create", "serviceaccount", "joe"]).await;
    bed.kubectl(&["create", "rolebinding", "joe", "--clusterrole=edit", "--serviceaccount=default:joe"])
        .await;
    let joe = bed.token("joe", "default").await;
    let limits = bed.token("limits-initializer", "kube-system").await;
    let images = bed.token("images-initializer", "kube-system").await;
    let mine = json!({"schedulingGates": [{"name": "joe/mine"}, {"name": "joe/other"}], "nodeSelector": {"disk": "ssd"}});
    bed.post(&joe, &pod("p", mine)).await.made();

    // The creator of a pod may remove the creator's own gates, and no others.
    bed.patch(&joe, "p", &passing("joe/other", json!({}))).await.made();
    let needs =
        format!("gate {LIMITS} is next, and user \"system:serviceaccount:default:joe\" may not act for it");
    bed.patch(&joe, "p", &passing(LIMITS, json!({}))).await.refused(403, &needs);
    bed.patch(&joe, "p/finalize", &json!({})).await.refused(403, "cannot patch resource \"pods/finalize\"");
    // The creator may not change the image back until only the creator's gates are left.
    let image = with(json!({"image": "web:2"}));
    let stays = format!(
        "spec.containers[0].image: Forbidden: images of a gated pod cannot be changed, and gate {LIMITS} is next"
    );
    bed.patch(&joe, "p", &json!({"spec": image})).await.refused(422, &stays);
    bed.patch("", "p", &json!({"spec": {"schedulingGates": null, "containers": image["containers"]}}))
        .await
        .refused(422, &stays);
    let turn = format!("gate {IMAGES} may not be removed yet: gate {LIMITS} is next");
    bed.patch(&images, "p/finalize", &passing(IMAGES, json!({}))).await.refused(422, &turn);
    bed.patch("", "p", &passing(IMAGES, json!({}))).await.refused(422, &turn);
    let other = json!({"metadata": {"annotations": {"a": "b"}}});
    bed.patch(&images, "p/finalize", &other).await.refused(403, &format!("gate {LIMITS} is next"));
    bed.patch("", "p", &json!({"spec": {"schedulingGates": [], "nodeName": "a"}})).await.refused(422, "spec");

    // The initializer may add missing fields when it removes its gate, but not change existing ones.
    let amounts = json!({"resources": {"limits": {"memory": "1Gi"}}, "command": ["/web"]});
    let over = passing(LIMITS, json!({"nodeSelector": {"disk": "hdd"}}));
    bed.patch(&limits, "p/finalize", &over)
        .await
        .refused(422, "spec.nodeSelector[disk]: Forbidden: set fields are immutable here");
    bed.patch(&limits, "p/finalize", &passing(LIMITS, with(json!({"image": "web:2"}))))
        .await
        .refused(422, "image");
    bed.patch(&limits, "p", &passing(LIMITS, with(amounts.clone())))
        .await
        .refused(403, "cannot patch resource \"pods\"");
    let condition_path = "jsonpath={.status.conditions[?(@.type==\"PodScheduled\")].message}";
    let message = bed.kubectl(&["get", "pod", "p", "-o", condition_path]).await;
    assert!(message.ends_with(&format!("of which {LIMITS} is the first")), "{message}");
    let now = bed.patch(&limits, "p/finalize", &passing(LIMITS, with(amounts))).await.made();
    assert_eq!(now["spec"]["containers"][0]["resources"]["requests"]["memory"], "1Gi");
    assert_eq!(now["status"]["qosClass"], "Burstable");
    bed.patch(&limits, "p/finalize", &other).await.refused(403, &format!("gate {IMAGES} is next"));

    // `kubectl get` shows the next initializer, and an administrator can remove its gate.
    let table = bed.kubectl(&["get", "pod", "p"]).await;
    assert!(table.contains("SchedulingGated"), "{table}");
    let message = bed.kubectl(&["get", "pod", "p", "-o", condition_path]).await;
    assert!(message.ends_with(&format!("of which {IMAGES} is the first")), "{message}");
    bed.kubectl(&["patch", "pod", "p", "--type=merge", "-p", "{\"spec\":{\"schedulingGates\":null}}"]).await;
    bed.patch(&images, "p/finalize", &other).await.refused(422, "no scheduling gates left");

    // A custom gate in a pod gives no right to use the `finalize` subresource.
    bed.post(&joe, &pod("q", json!({"schedulingGates": [{"name": "joe/mine"}]}))).await.made();
    bed.patch(&limits, "q/finalize", &passing(LIMITS, json!({}))).await.made();
    // Without kubectl: an update with the whole pod, without its first gate.
    let mut whole = bed.shows(&format!("{PODS}/q"), |_| true).await;
    whole["spec"]["schedulingGates"].as_array_mut().unwrap().remove(0);
    whole["spec"]["hostname"] = "q".into();
    let file = bed.master.data_dir().join("q.json");
    std::fs::write(&file, whole.to_string()).unwrap();
    let path = format!("{PODS}/q/finalize");
    bed.kubectl(&["replace", "--raw", &path, "-f", file.to_str().unwrap()]).await;
    let left = "jsonpath={.spec.hostname} {.spec.schedulingGates[*].name}";
    assert_eq!(bed.kubectl(&["get", "pod", "q", "-o", left]).await, "q joe/mine");
    bed.patch(&joe, "q", &json!({"spec": image})).await.made();
    bed.patch("", "q/finalize", &other).await.refused(403, "is not in the master's --scheduling-gates");
}

#[tokio::test]
async fn initialized_fields_count_towards_quota_limits_and_qos_class() {
    let bed = Bed::new().await;
    let limits = bed.token("limits-initializer", "kube-system").await;
    bed.kubectl(&["create", "quota", "q", "--hard=requests.ephemeral-storage=1Gi"]).await;
    bed.kubectl(&["create", "priorityclass", "high", "--value=1000"]).await;
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}});
    bed.send("", Method::POST, "/api/v1/namespaces/default/limitranges", &range).await.made();
    let quota = "/api/v1/namespaces/default/resourcequotas/q";
    let used = |quota: &Value| quota["status"]["used"]["requests.ephemeral-storage"].clone();
    bed.shows(quota, |quota| used(quota) == "0").await;
    let asking = |name: &str, amount: &str| {
        let mut pod = pod(name, json!({}));
        pod["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": amount}});
        pod
    };
    bed.post("", &asking("p", "512Mi")).await.made();
    bed.post("", &asking("q", "512Mi")).await.made();
    let storage = |amount: &str| with(json!({"resources": {"requests": {"ephemeral-storage": amount}}}));
    let much = bed.patch(&limits, "p/finalize", &passing(LIMITS, storage("2Gi"))).await;
    much.refused(403, "exceeded quota: q, requested: requests.ephemeral-storage=2Gi");
    bed.patch(&limits, "p/finalize", &passing(LIMITS, storage("600Mi"))).await.made();
    bed.shows(quota, |quota| used(quota) == "600Mi").await;
    let more = bed.patch(&limits, "q/finalize", &passing(LIMITS, storage("600Mi"))).await;
    more.refused(403, "exceeded quota: q");
    let large =
        json!({"initContainers": [{"name": "i", "image": "i", "resources": {"limits": {"memory": "2Gi"}}}]});
    let large = bed.patch(&limits, "q/finalize", &passing(LIMITS, large)).await;
    large.refused(403, "maximum memory usage per Container is 1Gi");

    let unknown =
        bed.patch(&limits, "q/finalize", &passing(LIMITS, json!({"priorityClassName": "none"}))).await;
    unknown.refused(403, "no PriorityClass with name none was found");
    // A pod that enters the scope of a quota counts fully.
    let scope =
        json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]});
    let of_class =
        json!({"metadata": {"name": "h"}, "spec": {"hard": {"pods": "1"}, "scopeSelector": scope}});
    bed.send("", Method::POST, "/api/v1/namespaces/default/resourcequotas", &of_class).await.made();
    let high = passing(LIMITS, json!({"priorityClassName": "high"}));
    assert_eq!(bed.patch(&limits, "q/finalize", &high).await.made()["spec"]["priority"], 1000);
    bed.post("", &asking("r", "512Mi")).await.made();
    let second = bed.patch(&limits, "r/finalize", &high).await;
    second.refused(403, "exceeded quota: h, requested: pods=1, used: pods=1, limited: pods=1");

    // Defaults and limits also apply to an added container.
    let side = passing(LIMITS, json!({"containers": [{"name": "side", "image": "i"}]}));
    let now = bed.patch(&limits, "r/finalize", &side).await.made();
    let containers = now["spec"]["containers"].as_array().unwrap();
    let side = containers.iter().find(|container| container["name"] == "side").unwrap();
    assert_eq!(side["resources"]["limits"]["memory"], "1Gi");
    let token = &side["volumeMounts"][0]["mountPath"];
    assert_eq!(token, "/var/run/secrets/kubernetes.io/serviceaccount", "{now}");
}

#[tokio::test]
async fn field_selector_watch_returns_pods_with_the_first_gate() {
    let bed = Bed::new().await;
    let pods = bed.kube().await;
    let images = format!("spec.schedulingGates[0].name={IMAGES}");
    bed.post("", &pod("old", json!({}))).await.made();
    bed.patch("", "old", &passing(LIMITS, json!({}))).await.made();
    bed.post("", &pod("p", json!({}))).await.made();
    let listed = bed.kubectl(&["get", "pods", "-o", "name", "--field-selector", &images]).await;
    assert_eq!(listed, "pod/old");

    // A watch with a field selector starts with the matching pods.
    let mut events = pods.watch(&WatchParams::default().fields(&images), "").await.unwrap().boxed();
    let mut next = async || {
        let event = tokio::time::timeout(DEADLINE, events.try_next()).await.expect("nothing came").unwrap();
        match event.expect("the watch has ended") {
            WatchEvent::Added(pod) => format!("added {}", pod.name_any()),
            WatchEvent::Modified(pod) => format!("modified {}", pod.name_any()),
            WatchEvent::Deleted(pod) => format!("deleted {}", pod.name_any()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(next().await, "added old");
    bed.patch("", "p", &passing(LIMITS, json!({}))).await.made();
    assert_eq!(next().await, "added p");
    bed.kubectl(&["label", "pod", "p", "a=b"]).await;
    assert_eq!(next().await, "modified p");
    bed.patch("", "p", &passing(IMAGES, json!({}))).await.made();
    assert_eq!(next().await, "deleted p");
}

#[tokio::test]
async fn pods_with_a_node_and_system_pods_get_no_gates() {
    let bed = Bed::new().await;
    bed.kubectl(&["create", "serviceaccount", "joe"]).await;
    bed.kubectl(&["create", "rolebinding", "joe", "--clusterrole=edit", "--serviceaccount=default:joe"])
        .await;
    let joe = bed.token("joe", "default").await;
    let finished = |name: &str| pod(name, json!({"nodeName": "a"}));
    let refusal = format!("pods of this cluster are completed by {LIMITS}, {IMAGES} first");
    bed.post(&joe, &finished("p")).await.refused(403, &refusal);
    let made = bed.post("", &finished("p")).await.made();
    assert!(made["spec"]["schedulingGates"].is_null() && made["spec"]["nodeName"] == "a", "{made}");

    // Pods in the namespace of the initializers get no gates, nor do mirror pods.
    bed.kubectl(&["create", "serviceaccount", "sets", "-n", "kube-system"]).await;
    let role = "--serviceaccount=kube-system:sets";
    bed.kubectl(&["create", "rolebinding", "sets", "-n", "kube-system", "--clusterrole=edit", role]).await;
    let sets = bed.token("sets", "kube-system").await;
    let system = "/api/v1/namespaces/kube-system/pods";
    bed.send(&sets, Method::POST, system, &pod("proxy", json!({}))).await.made();
    bed.shows(&format!("{system}/proxy"), |pod| pod["spec"]["nodeName"] == "a").await;
    // In other namespaces the same service accounts may not create pods without gates, because they create pods from
    // templates of other users.
    bed.kubectl(&["create", "rolebinding", "sets", "--clusterrole=edit", role]).await;
    bed.post(&sets, &finished("of-a-set")).await.refused(403, &refusal);

    let node = bed.master.user("system:node:a", &["system:nodes"]).await;
    let uid = bed.kubectl(&["get", "node", "a", "-o", "jsonpath={.metadata.uid}"]).await;
    let mut mirror = finished("web-a");
    mirror["apiVersion"] = "v1".into();
    mirror["kind"] = "Pod".into();
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    mirror["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": uid, "controller": true}]);
    let file = bed.master.data_dir().join("mirror.json");
    std::fs::write(&file, mirror.to_string()).unwrap();
    let made = bed.master.kubectl(&node, &["create", "-f", file.to_str().unwrap()]).await;
    assert_eq!(made.code, 0, "{made:?}");
}
