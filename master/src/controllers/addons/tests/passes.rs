//! Tests of passes over an in-process API and a real directory: what is applied, when, and what is reported.

use apiserver::registry::Registry;
use apiserver::storage::{Limits, Memory};
use apiserver::{Api, Catalog, Version, crd, kinds};
use client::{Error, Json, Kind};
use serde_json::{Value, json};

use super::*;

/// Creates a directory that not every user may write, whatever the umask is.
pub fn create_directory(path: &Path) {
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// A server, and the directories of one master.
pub struct Bed {
    pub client: Client,
    pub folder: tempfile::TempDir,
    pub addons: Addons,
    pub now: Instant,
}

impl Bed {
    pub async fn new() -> Self {
        let version = Version { major: "1", minor: "36", git_version: "test" };
        let registry = Registry::open(Arc::new(Memory::new(Limits::default())), Catalog::new(kinds::all()));
        let registry = registry.await.unwrap();
        crd::start(&registry).await.unwrap();
        let client = Client::in_process(Api::writable(registry, Vec::new(), version).router());
        for name in ["default", "kube-system"] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            client.create(&Kind::NAMESPACE, "", namespace).await.unwrap();
        }
        Self::beside(client, "one")
    }

    /// Another master of the same API.
    pub fn beside(client: Client, identity: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        create_directory(&folder.path().join("addons"));
        let addons = Addons::new(client.clone(), identity, &folder.path().join("addons"), folder.path());
        Self { client, folder, addons, now: Instant::now() }
    }

    /// Starts the add-ons again, as after a restart or when the lease is acquired again.
    pub fn restart(&mut self) {
        let Addons { client, identity, directory, .. } = &self.addons;
        self.addons = Addons::new(client.clone(), identity, directory, self.folder.path());
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("addons").join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Runs a pass after some time.
    pub async fn pass_after(&mut self, pause: Duration) {
        self.now += pause;
        self.addons.pass(self.now).await;
    }

    /// Runs passes until changed files are applied.
    pub async fn apply(&mut self) {
        self.pass_after(Duration::ZERO).await;
        self.pass_after(QUIET).await;
    }

    /// Runs passes until a removal is confirmed.
    pub async fn settle(&mut self) {
        self.pass_after(Duration::ZERO).await;
        self.pass_after(CONFIRM).await;
    }

    /// The ConfigMaps of the namespace `default`.
    pub async fn config_maps(&self) -> Vec<String> {
        self.names(&Kind::CONFIG_MAP, "default").await
    }

    pub async fn names(&self, kind: &Kind, namespace: &str) -> Vec<String> {
        let mut names = Vec::new();
        let name = |object: Json| object["metadata"]["name"].as_str().unwrap().to_owned();
        self.client.list(kind, namespace, |object| names.push(name(object))).await.unwrap();
        names
    }

    pub async fn get(&self, name: &str) -> Json {
        self.client.get(&Kind::CONFIG_MAP, "default", name).await.unwrap()
    }

    pub fn reports(&self) -> String {
        self.addons.recorder.recorded().join("\n")
    }

    async fn events(&self) -> Vec<Json> {
        let mut events = Vec::new();
        self.client.list(&Kind::EVENT, "kube-system", |event| events.push(event)).await.unwrap();
        events
    }
}

#[tokio::test]
async fn objects_are_applied_repaired_and_pruned() {
    let mut bed = Bed::new().await;
    bed.write("a.yaml", &(config_map("a") + &config_map("b")));
    bed.write("b.json", r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}"#);
    bed.apply().await;
    assert_eq!(bed.config_maps().await, ["a", "b", "c"]);
    assert_eq!(bed.get("a").await["metadata"]["managedFields"][0]["manager"], NAME);

    // The field of the manifest is repaired at the next resync. Another field of a user stays.
    let edit = json!({"data": {"a": "mine", "more": "x"}});
    bed.client.patch(&Kind::CONFIG_MAP, "default", "a", edit).await.unwrap();
    bed.pass_after(Duration::from_secs(9)).await;
    assert_eq!(bed.get("a").await["data"]["a"], "mine");
    bed.pass_after(RESYNC).await;
    assert_eq!(bed.get("a").await["data"], json!({"a": "b", "more": "x"}));

    // A new process knows the objects from the inventory. A removal is confirmed by a second scan.
    bed.restart();
    bed.write("a.yaml", &config_map("a"));
    bed.pass_after(Duration::ZERO).await;
    assert_eq!(bed.config_maps().await, ["a", "b", "c"]);
    bed.pass_after(CONFIRM).await;
    assert_eq!(bed.config_maps().await, ["a", "c"]);
    fs::remove_file(bed.path("b.json")).unwrap();
    bed.settle().await;
    assert_eq!(bed.config_maps().await, ["a"]);
    assert_eq!(bed.reports(), "");
}

#[tokio::test]
async fn only_changed_and_failed_objects_are_applied_again() {
    let mut bed = Bed::new().await;
    let invalid = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: z}\ndata: 5\n";
    bed.write("a.yaml", &(config_map("a") + &config_map("b")));
    bed.write("b.yaml", invalid);
    bed.apply().await;
    assert_eq!(bed.addons.applier.requests, 3);
    assert!(bed.reports().starts_with("b.yaml: document 1, ConfigMap z: "), "{}", bed.reports());
    bed.pass_after(Duration::ZERO).await;
    assert_eq!(bed.addons.applier.requests, 3, "the rejected object waits");
    // Its delay grows to minutes, and the others are not applied meanwhile.
    let mut requests = 3;
    for seconds in [1, 2, 4, 8, 16, 32] {
        bed.pass_after(Duration::from_secs(seconds)).await;
        requests += 1;
        assert_eq!(bed.addons.applier.requests, requests);
    }
    bed.write("a.yaml", &(config_map("a") + &config_map("b").replace("a: b", "a: c")));
    bed.apply().await;
    assert_eq!(bed.addons.applier.requests, requests + 1, "one of two objects changed");
    assert_eq!(bed.get("b").await["data"]["a"], "c");
    bed.write("b.yaml", &config_map("z"));
    bed.apply().await;
    assert_eq!(bed.config_maps().await, ["a", "b", "z"], "an edit ends the delay");
    assert_eq!(bed.reports(), "");
    assert_eq!(bed.events().await.len(), 1, "the same problem is recorded once");
}

#[tokio::test]
async fn a_definition_is_served_before_its_objects_are_applied() {
    let mut bed = Bed::new().await;
    let farm = "apiVersion: example.com/v1\nkind: Farm\nmetadata: {name: f, namespace: shop}\nsize: 1\n";
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: farms.example.com}\n\
        spec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: Farm, plural: farms}\n  versions:\n  - name: v1\n    \
        served: true\n    storage: true\n    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}\n";
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    bed.write("a.yaml", &config_map("a"));
    bed.write("b.yaml", &[farm, definition, namespace].join("---\n"));
    bed.apply().await;
    let kind = Kind::of("example.com", "Farm", "farms", true);
    assert_eq!(bed.reports(), "");
    assert_eq!(bed.names(&kind, "shop").await, ["f"], "one pass is enough");
    // The object is pruned; its kind and its namespace stay, and are reported.
    fs::remove_file(bed.path("b.yaml")).unwrap();
    bed.settle().await;
    assert_eq!(bed.names(&kind, "shop").await, [""; 0]);
    let reports = bed.reports();
    assert!(reports.contains("CustomResourceDefinition farms.example.com of b.yaml: remains"), "{reports}");
    assert!(reports.contains("Namespace shop of b.yaml: remains"), "{reports}");
}

#[tokio::test]
async fn a_manifest_with_an_unknown_field_is_reported_and_not_applied() {
    let mut bed = Bed::new().await;
    bed.write("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndta: {a: b}\n");
    bed.write("b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n");
    bed.apply().await;
    assert_eq!(bed.config_maps().await, ["b"]);
    let reports = bed.reports();
    assert!(reports.contains("a.yaml: document 1, ConfigMap a: ") && reports.contains("dta"), "{reports}");
}

#[tokio::test]
async fn a_rejected_secret_is_reported_without_its_values() {
    let mut bed = Bed::new().await;
    bed.write("a.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {password: hunter2!}\n");
    bed.write("b.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: b}\nstringData: hunter2\n");
    bed.apply().await;
    let reports = bed.reports();
    assert!(reports.contains("a.yaml: document 1, Secret a: the API server rejects it (4"), "{reports}");
    assert!(reports.contains("b.yaml: document 1, Secret b: "), "{reports}");
    let events = bed.events().await;
    assert_eq!(events.len(), 2);
    for text in [reports, format!("{events:?}")] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    // The whole error has the server's message, which may quote values.
    let key = ObjectKey { kind: "ConfigMap".to_owned(), ..ObjectKey::default() };
    let secret = ObjectKey { kind: "Secret".to_owned(), ..ObjectKey::default() };
    let bad =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"a": "hunter2!"}});
    let error: Error = bed.client.create(&Kind::SECRET, "default", bad).await.unwrap_err();
    assert!(!apply::reason(&secret, &error).contains("hunter2"));
    assert!(!apply::reason(&key, &error).is_empty());
}

#[tokio::test]
async fn a_removed_inventory_prunes_nothing_and_is_written_again() {
    let mut bed = Bed::new().await;
    bed.write("a.yaml", &config_map("a"));
    bed.write("b.yaml", &config_map("b"));
    bed.apply().await;
    let path = inventory::path(bed.folder.path());
    let stored: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(stored["objects"][0]["uid"], bed.get("a").await["metadata"]["uid"]);
    fs::remove_file(&path).unwrap();
    fs::remove_file(bed.path("b.yaml")).unwrap();
    bed.restart();
    bed.settle().await;
    assert_eq!(bed.config_maps().await, ["a", "b"]);
    assert!(path.exists());
}

#[tokio::test]
async fn a_half_written_file_is_not_applied() {
    let mut bed = Bed::new().await;
    let whole = config_map("a") + &config_map("b");
    bed.write("a.yaml", &config_map("a"));
    bed.pass_after(Duration::ZERO).await;
    bed.write("a.yaml", &whole);
    bed.pass_after(QUIET).await;
    assert_eq!(bed.config_maps().await, [""; 0]);
    bed.pass_after(QUIET).await;
    assert_eq!(bed.config_maps().await, ["a", "b"]);
}

#[tokio::test]
async fn an_unreadable_inventory_stops_no_apply_and_is_filled_later() {
    let mut bed = Bed::new().await;
    let path = inventory::path(bed.folder.path());
    fs::create_dir(&path).unwrap();
    bed.write("a.yaml", &config_map("a"));
    bed.settle().await;
    assert_eq!(bed.config_maps().await, ["a"]);
    assert!(bed.reports().contains("cannot read the inventory"), "{}", bed.reports());
    fs::remove_dir(&path).unwrap();
    bed.settle().await;
    assert_eq!(bed.reports(), "");
    assert_eq!(bed.addons.stored.as_ref().unwrap().objects.len(), 1);
}
