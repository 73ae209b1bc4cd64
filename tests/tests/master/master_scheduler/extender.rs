//! Scheduler extenders with the stock protocol: one that answers, one that is unreachable, and a slow one.

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tests::{DEADLINE, Master, wait_until};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

use crate::master_scheduler::{Bed, PODS};

/// The extender's requests in order: verb and body.
type Requests = Arc<Mutex<Vec<(&'static str, Value)>>>;

/// An extender that filters out node `a`, prefers `c`, rejects preemption on `a`, and binds pods through a master if it
/// has one.
#[derive(Clone)]
struct Extender {
    requests: Requests,
    master: watch::Sender<Option<(String, reqwest::Client)>>,
    /// Responses are delayed until this is true.
    open: watch::Sender<bool>,
    /// Number of requests that the extender holds while their client still waits.
    thinks: watch::Sender<usize>,
    /// The server runs until this is dropped.
    _stop: watch::Sender<bool>,
}

impl Extender {
    /// Starts the extender. Returns its URL.
    async fn start() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/say", listener.local_addr().unwrap());
        let (stop, stopped) = watch::channel(false);
        let extender = Self {
            requests: Requests::default(),
            master: watch::Sender::new(None),
            open: watch::Sender::new(true),
            thinks: watch::Sender::new(0),
            _stop: stop,
        };
        let router = Router::new()
            .route("/say/filter", post(filter))
            .route("/say/rank", post(rank))
            .route("/say/spare", post(spare))
            .route("/say/bind", post(bind))
            .with_state(extender.clone());
        tokio::spawn(apiserver::serve(listener, router, stopped));
        (extender, url)
    }

    async fn note(&self, verb: &'static str, question: &Value) {
        self.requests.lock().unwrap().push((verb, question.clone()));
        self.thinks.send_modify(|count| *count += 1);
        let _until_then = Thinks(self.thinks.clone());
        self.open.subscribe().wait_for(|open| *open).await.unwrap();
    }

    fn requests(&self, verb: &str) -> Vec<Value> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|(other, _)| *other == verb).map(|(_, question)| question.clone()).collect()
    }
}

/// Counts a held request until it is dropped, also when its client disconnects.
struct Thinks(watch::Sender<usize>);

impl Drop for Thinks {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

fn names(question: &Value) -> Vec<String> {
    let of = |node: &Value| node["metadata"]["name"].as_str().unwrap().to_owned();
    match question["Nodes"]["items"].as_array() {
        Some(nodes) => nodes.iter().map(of).collect(),
        None => serde_json::from_value(question["NodeNames"].clone()).unwrap(),
    }
}

async fn filter(State(extender): State<Extender>, Json(question): Json<Value>) -> Json<Value> {
    extender.note("filter", &question).await;
    let left: Vec<String> = names(&question).into_iter().filter(|name| name != "a").collect();
    let failed = json!({"a": "node(s) were not to the taste of the extender"});
    let nodes = question["Nodes"]["items"].as_array().map(|nodes| {
        let items: Vec<&Value> = nodes.iter().filter(|node| node["metadata"]["name"] != "a").collect();
        json!({"items": items})
    });
    let names = question["NodeNames"].is_array().then_some(left);
    Json(json!({"nodes": nodes, "nodeNames": names, "failedNodes": failed}))
}

async fn rank(State(extender): State<Extender>, Json(question): Json<Value>) -> Json<Value> {
    extender.note("rank", &question).await;
    let score = |name: &String| json!({"Host": name, "Score": if name == "c" { 10 } else { 0 }});
    Json(names(&question).iter().map(score).collect())
}

async fn spare(State(extender): State<Extender>, Json(question): Json<Value>) -> Json<Value> {
    extender.note("spare", &question).await;
    let mut left = question["NodeNameToMetaVictims"].clone();
    left.as_object_mut().unwrap().remove("b");
    Json(json!({"NodeNameToMetaVictims": left}))
}

async fn bind(State(extender): State<Extender>, Json(question): Json<Value>) -> Json<Value> {
    extender.note("bind", &question).await;
    let Some((url, client)) = extender.master.borrow().clone() else {
        return Json(json!({"Error": "there is nobody to tell it to"}));
    };
    let text = |field: &str| question[field].as_str().unwrap().to_owned();
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": text("PodName"), "uid": text("PodUID")},
        "target": {"kind": "Node", "name": text("Node")},
    });
    let path = format!("{url}/{}/binding", text("PodName"));
    let request = client.post(path).header("content-type", "application/json").body(binding.to_string());
    let code = request.send().await.unwrap().status().as_u16();
    Json(json!({"Error": if code == 201 { String::new() } else { code.to_string() }}))
}

/// A master with these extenders (one YAML list element each) and nodes `a`, `b` and `c`.
async fn bed(extenders: &[String]) -> Bed {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scheduler.yaml");
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    std::fs::write(&file, format!("{head}extenders: [{}]\n", extenders.join(", "))).unwrap();
    let config = format!("--scheduler-config={}", file.display());
    let mut master =
        Master::new().with_flags(["--scheduler=true", "--node-monitor-grace-period=1h", config.as_str()]);
    master.start().await;
    let bed = Bed::of(master).await;
    for name in ["a", "b", "c"] {
        bed.node(name, "x", json!({})).await;
    }
    bed
}

/// A pod that only the extender of `example.com/thing` handles.
async fn thing(bed: &Bed, name: &str) {
    let resources = json!({"limits": {"example.com/thing": "1"}});
    let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}});
    bed.make(PODS, &pod).await;
}

#[tokio::test]
async fn extender_filters_scores_and_binds() {
    let (extender, url) = Extender::start().await;
    let verbs = "filterVerb: filter, prioritizeVerb: rank, bindVerb: bind, weight: 1";
    let bed = bed(&[format!("{{urlPrefix: '{url}', {verbs}}}")]).await;
    extender.master.send_replace(Some((bed.master.url(PODS), bed.client.clone())));
    // Nodes and pods arrive by separate watches, so the first pods may arrive before the last node is ready.
    let mut count = 0;
    let (name, filtered) = loop {
        let name = format!("p-{count}");
        bed.pod(&name, "100m", json!({})).await;
        let node = bed.bound(&name).await;
        let requests = extender.requests("filter");
        let filtered =
            requests.into_iter().find(|requests| requests["Pod"]["metadata"]["name"] == name).unwrap();
        if names(&filtered).len() == 3 {
            assert_eq!(node, "c");
            break (name, filtered);
        }
        count += 1;
        assert!(count < 100, "it is never asked about all nodes");
    };
    // Filter requests have the complete nodes; prioritize requests have only the remaining ones.
    assert_eq!(filtered["Nodes"]["items"][0]["status"]["allocatable"]["pods"], "110");
    let ranked = extender.requests("rank");
    let ranked = ranked.iter().find(|requests| requests["Pod"]["metadata"]["name"] == name).unwrap();
    assert_eq!(names(ranked).len(), 2);
    let bound = extender.requests("bind");
    assert_eq!(bound.iter().find(|requests| requests["PodName"] == name).unwrap()["Node"], "c");
    let words = format!("Successfully assigned default/{name} to c");
    assert_eq!(bed.event(&name, "Scheduled").await, words);
    // If no node passes, the pod's condition has the extender's reason.
    bed.pod("only-a", "100m", json!({"nodeSelector": {"kubernetes.io/hostname": "a"}})).await;
    let words = bed.event("only-a", "FailedScheduling").await;
    let why = "1 node(s) were not to the taste of the extender, 2 node(s) didn't match Pod's node affinity/selector";
    assert!(words.starts_with(&format!("0/3 nodes are available: {why}.")), "{words}");
    // A failed bind is reported and retried.
    extender.master.send_replace(None);
    bed.pod("late", "100m", json!({})).await;
    bed.waits("late", "SchedulerError", "there is nobody to tell it to").await;
    extender.master.send_replace(Some((bed.master.url(PODS), bed.client.clone())));
    assert_eq!(bed.bound("late").await, "c");
}

#[tokio::test]
async fn scheduler_retries_or_ignores_an_unreachable_extender() {
    // Reserves a port on which nothing listens yet.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let managed = "managedResources: [{name: example.com/thing, ignoredByScheduler: true}]";
    let bed = bed(&[
        format!("{{urlPrefix: 'http://{address}/gone', filterVerb: filter, ignorable: true}}"),
        format!("{{urlPrefix: 'http://{address}', filterVerb: filter, {managed}}}"),
    ])
    .await;
    thing(&bed, "thing").await;
    let words = bed.event("thing", "FailedScheduling").await;
    assert!(words.starts_with(&format!("Post \"http://{address}/filter\": ")), "{words}");
    bed.waits("thing", "SchedulerError", &words).await;
    // Other pods do not wait.
    bed.pod("free", "100m", json!({})).await;
    bed.bound("free").await;
    // The extender starts. It alone accounts for a resource that no node lists.
    let listener = socket.listen(64).unwrap();
    let router = Router::new().route(
        "/filter",
        post(async |Json(question): Json<Value>| {
            Json(json!({"nodes": {"items": question["Nodes"]["items"]}}))
        }),
    );
    let (_stop, stopped) = watch::channel(false);
    tokio::spawn(apiserver::serve(listener, router, stopped));
    bed.bound("thing").await;
}

#[tokio::test]
async fn slow_extender_does_not_delay_other_pods() {
    let (extender, url) = Extender::start().await;
    extender.open.send_replace(false);
    let managed = "managedResources: [{name: example.com/thing, ignoredByScheduler: true}]";
    let bed = bed(&[format!(
        "{{urlPrefix: '{url}', filterVerb: filter, nodeCacheCapable: true, httpTimeout: 1h, {managed}}}"
    )])
    .await;
    // More pods than the scheduler sends to an extender concurrently.
    for count in 0..50 {
        thing(&bed, &format!("thing-{count}")).await;
    }
    let look = async || match extender.requests("filter").len() {
        0 => Err("he is not asked".to_owned()),
        _ => Ok(()),
    };
    wait_until(DEADLINE, look).await.unwrap();
    bed.pod("free", "100m", json!({})).await;
    bed.bound("free").await;
    assert!(extender.requests("filter").len() < 50);
    extender.open.send_replace(true);
    for count in 0..50 {
        assert_ne!(bed.bound(&format!("thing-{count}")).await, "a");
    }
}

#[tokio::test]
async fn slow_binding_extender_does_not_delay_other_pods() {
    let (extender, url) = Extender::start().await;
    extender.open.send_replace(false);
    let managed = "managedResources: [{name: example.com/thing, ignoredByScheduler: true}]";
    let bed = bed(&[format!("{{urlPrefix: '{url}', bindVerb: bind, httpTimeout: 1h, {managed}}}")]).await;
    extender.master.send_replace(Some((bed.master.url(PODS), bed.client.clone())));
    // More pods than the scheduler binds concurrently.
    for count in 0..150 {
        thing(&bed, &format!("thing-{count}")).await;
    }
    let mut thinks = extender.thinks.subscribe();
    tokio::time::timeout(DEADLINE, thinks.wait_for(|count| *count == 32)).await.unwrap().unwrap();
    bed.pod("free", "100m", json!({})).await;
    bed.bound("free").await;
    assert_eq!(extender.requests("bind").len(), 32);
    extender.open.send_replace(true);
    for count in 0..150 {
        bed.bound(&format!("thing-{count}")).await;
    }
}

#[tokio::test]
async fn pending_decisions_end_with_the_lease() {
    let (extender, url) = Extender::start().await;
    extender.open.send_replace(false);
    let bed = bed(&[format!("{{urlPrefix: '{url}', filterVerb: filter, httpTimeout: 1h}}")]).await;
    bed.pod("p", "100m", json!({})).await;
    let mut thinks = extender.thinks.subscribe();
    tokio::time::timeout(DEADLINE, thinks.wait_for(|count| *count == 1)).await.unwrap().unwrap();
    const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
    bed.patch(LEASE, &json!({"spec": {"holderIdentity": "another"}})).await;
    tokio::time::timeout(DEADLINE, thinks.wait_for(|count| *count == 0)).await.unwrap().unwrap();
    // The next lease holder sends the requests again.
    bed.delete(LEASE).await;
    extender.open.send_replace(true);
    assert_ne!(bed.bound("p").await, "a");
    assert_eq!(extender.requests("filter").len(), 2);
}

#[tokio::test]
async fn extender_reprieves_preemption_victims() {
    let (extender, url) = Extender::start().await;
    let bed = bed(&[format!("{{urlPrefix: '{url}', preemptVerb: spare, nodeCacheCapable: true}}")]).await;
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    bed.make("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
    for (name, hour) in [("a", 1), ("b", 9), ("c", 5)] {
        bed.pod(name, "3", json!({"nodeSelector": {"kubernetes.io/hostname": name}})).await;
        assert_eq!(bed.bound(name).await, name);
        let began = json!({"status": {"startTime": format!("2026-01-01T{hour:02}:00:00Z")}});
        bed.patch(&format!("{PODS}/{name}/status"), &began).await;
    }
    // Without the extender, the most recently started pod would be the victim: the one on `b`.
    bed.pod("high", "3", json!({"priorityClassName": "high"})).await;
    let preempted = async || {
        let pod = bed.get(&format!("{PODS}/high")).await;
        let nominated = pod["status"]["nominatedNodeName"].as_str().unwrap_or_default().to_owned();
        if nominated.is_empty() { Err(pod.to_string()) } else { Ok(nominated) }
    };
    let node = wait_until(DEADLINE, preempted).await.unwrap();
    let offered = extender.requests("spare")[0]["NodeNameToMetaVictims"].clone();
    assert_eq!(offered.as_object().unwrap().len(), 3, "{offered}");
    assert_eq!(node, "c");
}
