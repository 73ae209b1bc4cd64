//! A kube-rs controller as in its documentation: a custom resource derived from a type, a reflector and a lease.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Error, Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{Controller, WatchStreamExt as _, reflector, watcher};
use kube::{Api, Client, Config, CustomResource, CustomResourceExt as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tests::{DEADLINE, Master, wait_until};

/// A document.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "kube.rs",
    version = "v1",
    kind = "Document",
    namespaced,
    status = "DocumentStatus",
    shortname = "doc"
)]
#[serde(rename_all = "camelCase")]
struct DocumentSpec {
    title: String,
    /// Whether it is hidden.
    #[serde(default)]
    hide: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pages: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct DocumentStatus {
    checked: bool,
}

async fn client(master: &Master) -> Client {
    let file = Kubeconfig::read_from(master.data_dir().join("admin.kubeconfig")).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("{what} takes too long"))
}

/// Creates the CRD for documents and waits until documents can be created.
async fn defined(client: &Client) -> Api<Document> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply("documents").force();
    definitions.patch("documents.kube.rs", &apply, &Patch::Apply(Document::crd())).await.unwrap();
    let established = await_condition(definitions, "documents.kube.rs", conditions::is_crd_established());
    within("the definition", established).await.unwrap();
    Api::default_namespaced(client.clone())
}

fn document(name: &str, title: &str) -> Document {
    Document::new(name, DocumentSpec { title: title.to_owned(), hide: false, pages: None })
}

#[tokio::test]
async fn reflector_receives_creates_applies_and_deletes() {
    let master = Master::running().await;
    let client = client(&master).await;
    let documents = defined(&client).await;
    documents.create(&PostParams::default(), &document("first", "One")).await.unwrap();

    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let (reader, writer) = reflector::store();
        let stream = watcher(documents.clone(), config).default_backoff().reflect(writer);
        let follower = tokio::spawn(stream.try_for_each(|_| std::future::ready(Ok(()))));
        within("the first list", reader.wait_until_ready()).await.unwrap();
        assert_eq!(reader.state().len(), 1);

        let second = json!({"apiVersion": "kube.rs/v1", "kind": "Document", "metadata": {"name": "second"}, "spec": {"title": "Two"}});
        let apply = PatchParams::apply("editor");
        let applied = documents.patch("second", &apply, &Patch::Apply(&second)).await.unwrap();
        assert_eq!((applied.spec.title.as_str(), applied.spec.hide), ("Two", false));
        let sees = async |count: usize| {
            let names = || reader.state().iter().map(|document| document.name_any()).collect::<Vec<_>>();
            let look =
                async || Some(()).filter(|()| names().len() == count).ok_or_else(|| format!("{:?}", names()));
            wait_until(DEADLINE, look).await.unwrap();
        };
        sees(2).await;
        documents.delete("second", &DeleteParams::default()).await.unwrap();
        sees(1).await;
        follower.abort();
    }

    // Another applier gets a conflict that names the owner of the title.
    let other = json!({"apiVersion": "kube.rs/v1", "kind": "Document", "metadata": {"name": "first"}, "spec": {"title": "Uno"}});
    let refused =
        documents.patch("first", &PatchParams::apply("other"), &Patch::Apply(&other)).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert!(status.code == 409 && status.message.contains(".spec.title"), "{status:?}");

    let status = json!({"status": {"checked": true}});
    let patched =
        documents.patch_status("first", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    assert!(patched.status.unwrap().checked);

    let wrong = json!({"apiVersion": "kube.rs/v1", "kind": "Document", "metadata": {"name": "x"}, "spec": {"title": 3}});
    let dynamic = Api::<kube::core::DynamicObject>::default_namespaced_with(
        client.clone(),
        &kube::core::ApiResource::erase::<Document>(&()),
    );
    let wrong: kube::core::DynamicObject = serde_json::from_value(wrong).unwrap();
    let refused = dynamic.create(&PostParams::default(), &wrong).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert!(status.message.contains("spec.title in body must be of type string: \"integer\""), "{status:?}");
    assert_eq!(documents.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

/// Records in the status that a document was checked, and removes the finalizer of a deleted document.
async fn reconcile(
    document: Arc<Document>,
    documents: Arc<Api<Document>>,
) -> Result<Action, Error<kube::Error>> {
    finalizer(&documents, "kube.rs/check", document, |event| async {
        if let Event::Apply(document) = event {
            let checked =
                json!({"apiVersion": "kube.rs/v1", "kind": "Document", "status": {"checked": true}});
            let apply = PatchParams::apply("checker").force();
            documents.patch_status(&document.name_any(), &apply, &Patch::Apply(checked)).await?;
        }
        Ok::<_, kube::Error>(Action::await_change())
    })
    .await
}

#[tokio::test]
async fn kube_rs_controller_reconciles_custom_resources_and_their_finalizers() {
    let master = Master::running().await;
    let documents = defined(&client(&master).await).await;
    let made = documents.create(&PostParams::default(), &document("first", "One")).await.unwrap();
    let again = |_: Arc<Document>, _: &Error<kube::Error>, _| Action::requeue(Duration::from_millis(100));
    let controller = Controller::new(documents.clone(), watcher::Config::default());
    let runs = controller.run(reconcile, again, Arc::new(documents.clone()));
    let running = tokio::spawn(runs.for_each(|_| std::future::ready(())));

    let is_checked = |document: Option<&Document>| {
        document.and_then(|document| document.status.as_ref()).is_some_and(|status| status.checked)
    };
    within("the check", await_condition(documents.clone(), "first", is_checked)).await.unwrap();
    documents.delete("first", &DeleteParams::default()).await.unwrap();
    let uid = made.uid().unwrap();
    let gone = conditions::is_deleted(&uid);
    within("the end", await_condition(documents.clone(), "first", gone)).await.unwrap();
    running.abort();
}

#[tokio::test]
async fn one_leader_election_candidate_holds_the_lease() {
    let master = Master::running().await;
    let client = client(&master).await;
    let leases: Api<Lease> = Api::default_namespaced(client);
    let held_by = |holder: &str| LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(15),
        renew_time: Some(MicroTime(Timestamp::now())),
        ..LeaseSpec::default()
    };
    let lease = |holder: &str| Lease {
        metadata: ObjectMeta { name: Some("leader".to_owned()), ..ObjectMeta::default() },
        spec: Some(held_by(holder)),
    };
    let candidates = ["a", "b", "c"].map(|holder| {
        let (leases, lease) = (leases.clone(), lease(holder));
        async move { leases.create(&PostParams::default(), &lease).await }
    });
    let answers = futures_util::future::join_all(candidates).await;
    let lost: Vec<u16> = answers
        .iter()
        .filter_map(|answer| match answer {
            Err(kube::Error::Api(status)) => Some(status.code),
            Err(other) => panic!("{other}"),
            Ok(_) => None,
        })
        .collect();
    assert_eq!(lost, [409, 409]);

    // Two candidates take over with the resource version that both have read; the second gets a conflict.
    let read = leases.get("leader").await.unwrap();
    let takeover = ["d", "e"].map(|holder| {
        let (leases, mut lease) = (leases.clone(), read.clone());
        lease.spec = Some(held_by(holder));
        async move { leases.replace("leader", &PostParams::default(), &lease).await }
    });
    let answers = futures_util::future::join_all(takeover).await;
    let won: Vec<String> = answers
        .iter()
        .filter_map(|answer| answer.as_ref().ok()?.spec.as_ref()?.holder_identity.clone())
        .collect();
    assert_eq!(won.len(), 1, "{answers:?}");
    assert_eq!(leases.get("leader").await.unwrap().spec.unwrap().holder_identity.as_ref(), won.first());

    // A waiting candidate watches the lease.
    let name = watcher::Config::default().fields("metadata.name=leader").streaming_lists();
    let mut seen = std::pin::pin!(watcher(leases.clone(), name).applied_objects());
    let first = within("the watch", seen.next()).await.unwrap().unwrap();
    assert_eq!(first.spec.unwrap().holder_identity.as_ref(), won.first());
    let renewed = json!({"spec": {"holderIdentity": "f"}});
    leases.patch("leader", &PatchParams::default(), &Patch::Merge(&renewed)).await.unwrap();
    let next = within("the renewal", seen.next()).await.unwrap().unwrap();
    assert_eq!(next.spec.unwrap().holder_identity.as_deref(), Some("f"));
}
