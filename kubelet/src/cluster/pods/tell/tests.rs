//! What is told of a pod when it has gone, is another, or is written by somebody at that moment; and what is told when nobody is there.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Mutex;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use tokio::sync::Notify;

use super::super::State;
use super::super::book::Book;
use super::super::mirrors::Mirrors;
use super::super::shelf::Shelf;
use super::*;
use crate::cluster::follow::Told;
use crate::cluster::tests::fake::{Fake, nobody};
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

fn doomed(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    pod
}

/// Who tells of `web` (u1), which the API has and which runs here.
struct Bed {
    teller: Teller,
    outbox: Arc<Outbox>,
    uid: PodUid,
}

impl Bed {
    fn new(there: Value) -> Self {
        let mut book = Book::new("n1");
        book.hear(Told::All(vec![there], "100".to_owned()));
        book.confirm("node-1");
        let (shelf, mirrors) = (Shelf::default(), Mirrors::default());
        let state = State { book, shelf, mirrors, touched: BTreeSet::new() };
        let (changed, list_anew) = (watch::channel(()).0, Notify::new());
        let shared = Arc::new(Shared { state: Mutex::new(state), changed, list_anew });
        let outbox = Outbox::new();
        let teller = Teller {
            shared,
            apis: watch::channel(None).1,
            reports: outbox.copied(),
            voice: Voice::new("n1", outbox.clone()),
            latest: BTreeMap::new(),
            due: BTreeSet::new(),
            tried: BTreeMap::new(),
            lists: 0,
        };
        Self { teller, outbox, uid: PodUid::new("u1") }
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
        self.teller.look();
    }

    fn hear(&mut self, told: Told<Value>) {
        self.teller.shared.hear(told);
        self.teller.look();
    }

    async fn tell(&mut self, api: &Api) -> Result<(), Trouble> {
        let uid = self.uid.clone();
        self.teller.tell(api, &uid).await
    }

    fn is_due(&self) -> bool {
        self.teller.due.contains(&self.uid)
    }

    async fn events(&self) -> Vec<String> {
        // One of our own, so that there is something to take.
        self.outbox.problems(Vec::new());
        self.outbox.take().await.notes.into_iter().map(|note| note.reason.into_owned()).collect()
    }
}

#[tokio::test]
async fn a_status_is_told_once() {
    let (fake, api) = Fake::start().await;
    let mut bed = Bed::new(web("u1", 10, "Pending"));
    bed.reports("Running");
    fake.says(200, Some(web("u1", 11, "Running")));
    bed.tell(&api).await.unwrap();
    let asked = fake.asked_with();
    assert_eq!((asked[0].0.as_str(), &asked[0].1["metadata"]), (STATUS, &json!({"uid": "u1"})));
    assert!(!bed.is_due());
    // It stands there by what is heard, or by what was answered.
    bed.hear(Told::Put(web("u1", 11, "Running")));
    bed.tell(&api).await.unwrap();
    assert_eq!(fake.asked(), [""; 0]);
}

#[tokio::test]
async fn what_somebody_writes_at_that_moment_is_told_when_it_is_heard_of() {
    for code in [404, 409] {
        let (fake, api) = Fake::start().await;
        let mut bed = Bed::new(web("u1", 10, "Pending"));
        bed.reports("Running");
        fake.says(code, None);
        bed.tell(&api).await.unwrap();
        assert!(!bed.is_due(), "{code}: it is not asked again and again");
        assert_eq!(fake.asked(), [STATUS], "{code}");
        bed.hear(Told::Put(web("u1", 11, "Pending")));
        assert!(bed.is_due());
        bed.tell(&api).await.unwrap();
        assert_eq!((fake.asked(), bed.events().await), (vec![STATUS.to_owned()], vec![]), "{code}");
    }
}

#[tokio::test]
async fn what_somebody_overwrites_again_is_told_again() {
    let (fake, api) = Fake::start().await;
    let mut bed = Bed::new(web("u1", 10, "Pending"));
    let status = Arc::new(PodStatus { phase: Some("Running".to_owned()), ..PodStatus::default() });
    bed.report(Report::Status { pod: Arc::default(), status, deletion: None });
    for version in [10, 12, 14] {
        bed.hear(Told::Put(web("u1", version, "Pending")));
        fake.says(200, Some(web("u1", version + 1, "Running")));
        bed.tell(&api).await.unwrap();
        assert_eq!(fake.asked(), [STATUS], "{version}");
    }
}

#[tokio::test]
async fn nothing_is_told_of_a_pod_that_is_gone_or_of_another_of_its_name() {
    let (fake, api) = Fake::start().await;
    let mut bed = Bed::new(web("u1", 10, "Pending"));
    bed.reports("Running");
    bed.hear(Told::Gone(web("u1", 11, "Pending")));
    bed.hear(Told::Put(web("u9", 12, "Pending")));
    bed.tell(&api).await.unwrap();
    assert_eq!(fake.asked(), [""; 0]);
    assert!(bed.teller.latest.contains_key(&bed.uid), "it is still being ended");
    bed.report(Report::Gone);
    bed.tell(&api).await.unwrap();
    assert!(bed.teller.latest.is_empty() && bed.teller.tried.is_empty() && fake.asked().is_empty());
}

#[tokio::test]
async fn the_last_status_is_told_before_a_pod_is_removed() {
    let (fake, api) = Fake::start().await;
    let mut bed = Bed::new(doomed(web("u1", 10, "Running")));
    bed.reports("Succeeded");
    bed.tell(&api).await.unwrap();
    assert_eq!(fake.asked(), [STATUS], "something is left of it");
    bed.reports("Failed");
    bed.report(Report::Gone);
    bed.tell(&api).await.unwrap();
    let asked = fake.asked_with();
    assert_eq!(asked.iter().map(|(line, _)| line.as_str()).collect::<Vec<_>>(), [STATUS, DELETE]);
    assert_eq!(asked[0].1["status"]["phase"], "Failed");
    assert_eq!(asked[1].1, json!({"gracePeriodSeconds": 0, "preconditions": {"uid": "u1"}}));
    // A removal that is not heard of yet is not repeated, and one that met another pod is no trouble.
    bed.teller.due.insert(bed.uid.clone());
    bed.tell(&api).await.unwrap();
    assert_eq!(fake.asked(), [""; 0]);
}

#[tokio::test]
async fn a_pod_that_is_to_go_and_that_a_restored_master_does_not_name_is_done_with_once_it_has_gone() {
    let (fake, api) = Fake::start().await;
    let mut bed = Bed::new(doomed(web("u1", 10, "Running")));
    bed.reports("Running");
    bed.hear(Told::All(Vec::new(), "50".to_owned()));
    bed.teller.shared.lock().book.confirm("node-1");
    let given = |bed: &Bed| bed.teller.shared.lock().book.given().count();
    bed.tell(&api).await.unwrap();
    assert_eq!(given(&bed), 1, "it has its time");
    bed.report(Report::Gone);
    bed.tell(&api).await.unwrap();
    assert_eq!((given(&bed), fake.asked()), (0, Vec::new()));
}

#[tokio::test]
async fn a_pod_that_is_not_to_go_is_not_removed_though_it_has_gone_here() {
    let (fake, api) = Fake::start().await;
    let mut bed = Bed::new(web("u1", 10, "Running"));
    bed.reports("Running");
    bed.report(Report::Gone);
    bed.tell(&api).await.unwrap();
    assert_eq!(fake.asked(), [STATUS]);
}

#[tokio::test]
async fn while_nobody_answers_everything_stays_to_be_told() {
    let (fake, api) = Fake::start().await;
    let mut bed = Bed::new(doomed(web("u1", 10, "Running")));
    bed.reports("Succeeded");
    bed.report(Report::Gone);
    assert!(matches!(bed.tell(&*nobody().await).await, Err(Trouble::Unreachable { .. })));
    for code in [401, 429, 500, 503] {
        fake.says(code, None);
        assert!(bed.tell(&api).await.is_err_and(|trouble| trouble.is_code(code)) && bed.is_due());
    }
    fake.asked();
    bed.tell(&api).await.unwrap();
    assert_eq!(fake.asked(), [STATUS, DELETE]);
}

#[tokio::test]
async fn what_is_refused_for_good_is_told_to_people_and_tried_after_the_next_list() {
    let (fake, api) = Fake::start().await;
    let mut bed = Bed::new(web("u1", 10, "Pending"));
    bed.reports("Running");
    fake.says(422, None);
    bed.tell(&api).await.unwrap();
    bed.teller.due.insert(bed.uid.clone());
    bed.tell(&api).await.unwrap();
    assert_eq!((fake.asked(), bed.events().await), (vec![STATUS.to_owned()], vec!["PodNotTold".to_owned()]));
    bed.teller.shared.hear(Told::All(vec![web("u1", 10, "Pending")], "101".to_owned()));
    bed.teller.shared.lock().book.confirm("node-1");
    bed.teller.look();
    bed.tell(&api).await.unwrap();
    assert_eq!(fake.asked(), [STATUS]);
}
