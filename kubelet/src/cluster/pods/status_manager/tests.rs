//! Status updates for pods that are deleted, replaced or changed concurrently, and while no API server answers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Mutex;

use client::Delta;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use tokio::sync::Notify;

use super::super::State;
use super::super::mirror_pods::MirrorPods;
use super::super::pod_store::PodStore;
use super::super::reference_cache::ReferenceCache;
use super::*;
use crate::cluster::tests::fake::{Fake, unreachable_api};
use crate::cluster::tests::stock::Stock;
use crate::report::{Outbox, Report};

const STATUS: &str = "PATCH /api/v1/namespaces/default/pods/web/status";
const DELETE: &str = "DELETE /api/v1/namespaces/default/pods/web";

fn web(uid: &str, version: u64, phase: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": uid, "resourceVersion": version.to_string()},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": phase},
    })
}

fn terminating(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    pod
}

/// A status manager with the pod `web` (u1), which exists in the API and runs on this node.
struct Bed {
    manager: StatusManager,
    outbox: Arc<Outbox>,
    uid: PodUid,
}

impl Bed {
    fn new(there: Value) -> Self {
        let mut pod_store = PodStore::new("n1");
        pod_store.apply(Delta::Replaced(vec![there], "100".to_owned()));
        pod_store.confirm("node-1");
        let (reference_cache, mirror_pods) = (ReferenceCache::default(), MirrorPods::default());
        let state = State { pod_store, reference_cache, mirror_pods, dirty: BTreeSet::new() };
        let (changed, relist) = (watch::channel(()).0, Notify::new());
        let shared = Arc::new(Shared { state: Mutex::new(state), changed, relist });
        let outbox = Outbox::new();
        let manager = StatusManager {
            shared,
            apis: watch::channel(None).1,
            reports: outbox.copied(),
            reporter: EventReporter::new("n1", outbox.clone()),
            latest: BTreeMap::new(),
            due: BTreeSet::new(),
            attempted: BTreeMap::new(),
            lists_confirmed: 0,
        };
        Self { manager, outbox, uid: PodUid::new("u1") }
    }

    fn reports(&mut self, phase: &str) {
        let state = json!({"terminated": {"exitCode": 0}});
        let container = json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state});
        let status = json!({"phase": phase, "containerStatuses": [container]});
        let status: PodStatus = serde_json::from_value(status).unwrap();
        let pod = Arc::new(Pod::default());
        self.report(Report::Status { pod, status: Arc::new(status), deletion: None });
    }

    fn report(&mut self, report: Report) {
        self.outbox.report(self.uid.clone(), report);
        self.manager.collect();
    }

    fn apply(&mut self, delta: Delta<Value>) {
        self.manager.shared.apply(delta);
        self.manager.collect();
    }

    async fn write_statuses(&mut self, api: &Api) -> Result<(), ApiError> {
        let uid = self.uid.clone();
        self.manager.sync_pod(api, &uid).await
    }

    fn is_due(&self) -> bool {
        self.manager.due.contains(&self.uid)
    }

    async fn events(&self) -> Vec<String> {
        // `take` waits for a message, so there must be one.
        self.outbox.problems(Vec::new());
        self.outbox.take().await.notes.into_iter().map(|note| note.reason.into_owned()).collect()
    }
}

#[tokio::test]
async fn a_status_is_written_once() {
    let (fake, api) = Fake::start().await;
    let mut bed = Bed::new(web("u1", 10, "Pending"));
    bed.reports("Running");
    fake.respond(200, Some(web("u1", 11, "Running")));
    bed.write_statuses(&api).await.unwrap();
    let sent = fake.requests_with_bodies();
    assert_eq!((sent[0].0.as_str(), &sent[0].1["metadata"]), (STATUS, &json!({"uid": "u1"})));
    assert!(!bed.is_due());
    // The server's status is known from the watch or from a response.
    bed.apply(Delta::Applied(web("u1", 11, "Running")));
    bed.write_statuses(&api).await.unwrap();
    assert_eq!(fake.requests(), [""; 0]);
}

#[tokio::test]
async fn a_status_of_an_older_generation_is_not_written() {
    let (fake, api) = Fake::start().await;
    let at_generation = |generation: i64, version: u64| {
        let mut pod = web("u1", version, "Running");
        pod["metadata"]["generation"] = generation.into();
        pod["status"]["observedGeneration"] = 3.into();
        pod
    };
    let report = |observed_generation| {
        let phase = Some("Pending".to_owned());
        let status = Arc::new(PodStatus { phase, observed_generation, ..PodStatus::default() });
        Report::Status { pod: Arc::default(), status, deletion: None }
    };
    let mut bed = Bed::new(at_generation(3, 10));
    bed.report(report(Some(2)));
    bed.write_statuses(&api).await.unwrap();
    assert_eq!(fake.requests(), [""; 0]);
    bed.report(report(Some(3)));
    fake.respond(200, Some(at_generation(3, 11)));
    bed.write_statuses(&api).await.unwrap();
    assert_eq!(fake.requests(), [STATUS]);
    // Another client wrote a generation that the pod does not have yet.
    bed.apply(Delta::Applied(at_generation(2, 12)));
    bed.report(report(Some(2)));
    fake.respond(200, Some(at_generation(2, 13)));
    bed.write_statuses(&api).await.unwrap();
    assert_eq!(fake.requests(), [STATUS]);
}

#[tokio::test]
async fn a_concurrent_write_is_corrected_when_its_event_arrives() {
    for code in [404, 409] {
        let (fake, api) = Fake::start().await;
        let mut bed = Bed::new(web("u1", 10, "Pending"));
        bed.reports("Running");
        fake.respond(code, None);
        bed.write_statuses(&api).await.unwrap();
        assert!(!bed.is_due(), "{code}: it is not asked again and again");
        assert_eq!(fake.requests(), [STATUS], "{code}");
        bed.apply(Delta::Applied(web("u1", 11, "Pending")));
        assert!(bed.is_due());
        bed.write_statuses(&api).await.unwrap();
        assert_eq!((fake.requests(), bed.events().await), (vec![STATUS.to_owned()], vec![]), "{code}");
    }
}

#[tokio::test]
async fn an_overwritten_status_is_written_again() {
    let (fake, api) = Fake::start().await;
    let mut bed = Bed::new(web("u1", 10, "Pending"));
    let status = Arc::new(PodStatus { phase: Some("Running".to_owned()), ..PodStatus::default() });
    bed.report(Report::Status { pod: Arc::default(), status, deletion: None });
    for version in [10, 12, 14] {
        bed.apply(Delta::Applied(web("u1", version, "Pending")));
        fake.respond(200, Some(web("u1", version + 1, "Running")));
        bed.write_statuses(&api).await.unwrap();
        assert_eq!(fake.requests(), [STATUS], "{version}");
    }
}

#[tokio::test]
async fn no_status_is_written_for_a_deleted_or_replaced_pod() {
    let (fake, api) = Fake::start().await;
    let mut bed = Bed::new(web("u1", 10, "Pending"));
    bed.reports("Running");
    bed.apply(Delta::Deleted(web("u1", 11, "Pending")));
    bed.apply(Delta::Applied(web("u9", 12, "Pending")));
    bed.write_statuses(&api).await.unwrap();
    assert_eq!(fake.requests(), [""; 0]);
    assert!(bed.manager.latest.contains_key(&bed.uid), "it is still being ended");
    bed.report(Report::Gone);
    bed.write_statuses(&api).await.unwrap();
    assert!(bed.manager.latest.is_empty() && bed.manager.attempted.is_empty() && fake.requests().is_empty());
}

#[tokio::test]
async fn the_last_status_is_written_before_the_pod_is_deleted() {
    let (fake, api) = Fake::start().await;
    let mut bed = Bed::new(terminating(web("u1", 10, "Running")));
    bed.reports("Succeeded");
    bed.write_statuses(&api).await.unwrap();
    assert_eq!(fake.requests(), [STATUS], "something is left of it");
    bed.reports("Failed");
    bed.report(Report::Gone);
    bed.write_statuses(&api).await.unwrap();
    let sent = fake.requests_with_bodies();
    assert_eq!(sent.iter().map(|(line, _)| line.as_str()).collect::<Vec<_>>(), [STATUS, DELETE]);
    assert_eq!(sent[0].1["status"]["phase"], "Failed");
    assert_eq!(sent[1].1, json!({"gracePeriodSeconds": 0, "preconditions": {"uid": "u1"}}));
    // A deletion that the watch has not shown yet is not repeated. A deletion rejected because of the UID is no error.
    bed.manager.due.insert(bed.uid.clone());
    bed.write_statuses(&api).await.unwrap();
    assert_eq!(fake.requests(), [""; 0]);
}

#[tokio::test]
async fn terminating_pod_unknown_to_a_restored_master_is_dropped_when_it_ends() {
    let (fake, api) = Fake::start().await;
    let mut bed = Bed::new(terminating(web("u1", 10, "Running")));
    bed.reports("Running");
    bed.apply(Delta::Replaced(Vec::new(), "50".to_owned()));
    bed.manager.shared.lock().pod_store.confirm("node-1");
    let given = |bed: &Bed| bed.manager.shared.lock().pod_store.assigned().count();
    bed.write_statuses(&api).await.unwrap();
    assert_eq!(given(&bed), 1, "it has its time");
    bed.report(Report::Gone);
    bed.write_statuses(&api).await.unwrap();
    assert_eq!((given(&bed), fake.requests()), (0, Vec::new()));
}

#[tokio::test]
async fn status_manager_does_not_delete_a_finished_pod_that_is_not_terminating() {
    let (fake, api) = Fake::start().await;
    let mut bed = Bed::new(web("u1", 10, "Running"));
    bed.reports("Running");
    bed.report(Report::Gone);
    bed.write_statuses(&api).await.unwrap();
    assert_eq!(fake.requests(), [STATUS]);
}

#[tokio::test]
async fn while_the_api_server_is_away_every_status_stays_pending() {
    let (fake, api) = Fake::start().await;
    let mut bed = Bed::new(terminating(web("u1", 10, "Running")));
    bed.reports("Succeeded");
    bed.report(Report::Gone);
    assert!(matches!(bed.write_statuses(&*unreachable_api().await).await, Err(ApiError::Unreachable { .. })));
    for code in [401, 429, 500, 503] {
        fake.respond(code, None);
        assert!(bed.write_statuses(&api).await.is_err_and(|error| error.has_code(code)) && bed.is_due());
    }
    fake.requests();
    bed.write_statuses(&api).await.unwrap();
    assert_eq!(fake.requests(), [STATUS, DELETE]);
}

#[tokio::test]
async fn a_permanent_rejection_is_an_event_and_is_retried_after_the_next_list() {
    let (fake, api) = Fake::start().await;
    let mut bed = Bed::new(web("u1", 10, "Pending"));
    bed.reports("Running");
    fake.respond(422, None);
    bed.write_statuses(&api).await.unwrap();
    bed.manager.due.insert(bed.uid.clone());
    bed.write_statuses(&api).await.unwrap();
    assert_eq!(
        (fake.requests(), bed.events().await),
        (vec![STATUS.to_owned()], vec!["PodStatusRejected".to_owned()])
    );
    bed.manager.shared.apply(Delta::Replaced(vec![web("u1", 10, "Pending")], "101".to_owned()));
    bed.manager.shared.lock().pod_store.confirm("node-1");
    bed.manager.collect();
    bed.write_statuses(&api).await.unwrap();
    assert_eq!(fake.requests(), [STATUS]);
}

#[tokio::test]
async fn a_stock_server_takes_every_status_of_a_pods_life() {
    const POD: &str = "/api/v1/namespaces/default/pods/web";
    let (stock, api) = Stock::start(&[(POD, web("u1", 1, "Pending"))]).await;
    let mut bed = Bed::new(stock.object(POD));
    let ready = |status: &str, reason: Option<&str>| {
        let mut condition = json!({"type": "Ready", "status": status});
        if let Some(reason) = reason {
            condition["reason"] = reason.into();
        }
        json!([condition])
    };
    let host = json!([{"ip": "192.0.2.1"}]);
    for status in [
        json!({"phase": "Pending", "hostIP": "192.0.2.1", "hostIPs": host, "conditions": ready("False", Some("ContainersNotReady"))}),
        json!({"phase": "Running", "hostIPs": host, "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}], "conditions": ready("True", None)}),
        // A new sandbox has other addresses, then an address of each family.
        json!({"phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}], "conditions": ready("True", None)}),
        json!({"phase": "Running", "podIPs": [{"ip": "fd00::7"}, {"ip": "10.0.0.7"}], "conditions": ready("False", Some("R"))}),
        json!({"phase": "Running", "conditions": ready("False", Some("R"))}),
        json!({"phase": "Running", "podIPs": [{"ip": "10.0.0.8"}], "conditions": ready("False", Some("R"))}),
        json!({"phase": "Succeeded", "podIPs": [{"ip": "10.0.0.8"}], "conditions": ready("False", Some("PodCompleted"))}),
    ] {
        let own: PodStatus = serde_json::from_value(status).unwrap();
        let report = Report::Status { pod: Arc::default(), status: Arc::new(own.clone()), deletion: None };
        bed.report(report);
        bed.write_statuses(&api).await.unwrap();
        assert_eq!((stock.rejected(), bed.events().await), (vec![], vec![]), "{own:?}");
        let object = stock.object(POD);
        assert_eq!(serde_json::from_value::<PodStatus>(object["status"].clone()).unwrap(), own);
        bed.apply(Delta::Applied(object));
    }
    let writes = stock.writes();
    bed.write_statuses(&api).await.unwrap();
    assert_eq!((writes, stock.writes()), (7, 7), "an unchanged status is not written again");
}
