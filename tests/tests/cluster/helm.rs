//! Helm charts on a real node: a chart like that of `helm create`, and a stateful one with claims, hooks and a custom resource.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tests::{IMAGE, Master, Output, Python, World, wait_until};

use crate::cluster_pods::{get, joined_with, kubectl};

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/one-web";
const SET: &str = "/apis/apps/v1/namespaces/default/statefulsets/db";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
/// Time limit of a command. Helm's own limit applies to each hook and to the wait for the objects.
const LIMIT: Duration = Duration::from_secs(200);
/// Flags of commands that wait until the objects of a release are ready.
const WAIT: [&str; 3] = ["--wait", "--timeout", "90s"];

/// Helm with a home directory of its own, a master and its node.
struct Helm {
    _world: World,
    master: Master,
    python: Python,
}

impl Helm {
    async fn new(node: &str) -> Self {
        let (master, world) = joined_with(node, "--scheduler=true").await;
        Self { _world: world, master, python: Python::new() }
    }

    async fn try_run(&self, line: &str, flags: &[&str]) -> Output {
        let mut command = self.python.command("helm");
        command.arg("--kubeconfig").arg(self.master.data_dir().join("admin.kubeconfig"));
        command.args(line.split(' ')).args(flags);
        self.python.run(command, LIMIT).await
    }

    async fn run(&self, line: &str, flags: &[&str]) -> String {
        let output = self.try_run(line, flags).await;
        assert_eq!(output.code, 0, "helm {line} {flags:?}: {output:?}\n{}", self.master.log());
        output.stdout
    }

    /// Installs or upgrades a release and waits until it is ready.
    async fn deploy(&self, line: &str, values: &str) -> String {
        let values = format!("image={IMAGE},{values}");
        self.run(line, &[&WAIT[..], &["--set", &values]].concat()).await
    }

    async fn get(&self, path: &str) -> Value {
        get(&self.master, path).await.unwrap_or_else(|why| panic!("{path}: {why}"))
    }

    async fn kubectl(&self, line: &str) -> String {
        kubectl(&self.master, &line.split(' ').collect::<Vec<_>>()).await
    }

    /// Waits until the object or list at the path satisfies the condition.
    async fn until(&self, path: &str, is: impl Fn(&Value) -> bool) -> Value {
        let look = async || {
            let found = get(&self.master, path).await?;
            if is(&found) { Ok(found) } else { Err(found["status"].to_string()) }
        };
        wait_until(LIMIT, look).await.unwrap_or_else(|seen| panic!("{path}: {seen}"))
    }

    /// Waits until all replicas are ready. Helm does not wait for the pods of earlier revisions to end.
    async fn until_replicas(&self, path: &str, count: u64) -> Value {
        let fields = ["replicas", "readyReplicas", "updatedReplicas"];
        self.until(path, |found| fields.iter().all(|field| found["status"][field] == count)).await
    }

    /// Waits until no object is at the path, or no item in its list.
    async fn gone(&self, path: &str) {
        let look = async || match self.master.get_as_admin(path).await {
            (404, _) => Ok(()),
            (200, text) if text.contains("\"items\":[]") => Ok(()),
            (code, text) => Err(format!("{code} {text}")),
        };
        wait_until(LIMIT, look).await.unwrap_or_else(|seen| panic!("{path}: {seen}"));
    }
}

fn chart(name: &str) -> String {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/charts").join(name);
    folder.display().to_string()
}

#[tokio::test]
async fn a_web_chart_is_installed_upgraded_rolled_back_and_uninstalled() {
    let helm = Helm::new("helm-web").await;
    let chart = chart("web");
    let printed = helm.deploy(&format!("install one {chart}"), "message=first").await;
    assert!(
        printed.contains("STATUS: deployed") && printed.contains("The release one serves first."),
        "{printed}"
    );
    helm.until_replicas(DEPLOYMENT, 2).await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices\
                  ?labelSelector=kubernetes.io%2Fservice-name%3Done-web";
    helm.until(slices, |slices| slices["items"][0]["endpoints"].as_array().is_some_and(|all| all.len() == 2))
        .await;
    let printed = helm.run("test one --logs", &["--timeout", "90s"]).await;
    assert!(printed.contains("Phase:          Succeeded") && printed.contains("first"), "{printed}");

    helm.deploy(&format!("upgrade one {chart}"), "message=second,replicaCount=3").await;
    let upgraded = helm.until_replicas(DEPLOYMENT, 3).await;
    assert_eq!(upgraded["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    helm.run("test one", &["--timeout", "90s"]).await;

    // A version that never becomes ready is rolled back by Helm itself.
    let values = format!("image={IMAGE},message=third,replicaCount=3,ready=false");
    let failed =
        helm.try_run(&format!("upgrade one {chart} --atomic --timeout 20s --set {values}"), &[]).await;
    assert_ne!(failed.code, 0, "{failed:?}");
    assert!(failed.stderr.contains("has been rolled back due to atomic being set"), "{failed:?}");
    let map = helm.get("/api/v1/namespaces/default/configmaps/one-web").await;
    assert_eq!(map["data"]["index.html"], "second\n");
    helm.until_replicas(DEPLOYMENT, 3).await;

    helm.run("rollback one 1", &WAIT).await;
    helm.until_replicas(DEPLOYMENT, 2).await;
    let history = helm.run("history one", &[]).await;
    assert!(history.contains("Rollback to 1"), "{history}");
    assert_eq!(helm.get(DEPLOYMENT).await["spec"]["template"]["spec"]["containers"][0]["image"], IMAGE);

    helm.run("uninstall one", &WAIT).await;
    for path in [
        DEPLOYMENT,
        "/api/v1/namespaces/default/services/one-web",
        "/api/v1/namespaces/default/configmaps/one-web",
    ] {
        helm.gone(path).await;
    }
    helm.gone(&format!("{PODS}?labelSelector=app.kubernetes.io%2Finstance%3Done,pod-template-hash")).await;
    assert_eq!(helm.run("list --all --short", &[]).await, "");
}

#[tokio::test]
async fn a_stateful_chart_with_hooks_and_a_custom_resource_keeps_its_data() {
    let helm = Helm::new("helm-store").await;
    let chart = chart("store");
    helm.deploy(&format!("install db {chart}"), "revision=one").await;
    helm.until_replicas(SET, 2).await;
    // The hook ran before the other objects, and Helm deleted it when it had succeeded.
    helm.gone("/apis/batch/v1/namespaces/default/jobs/db-pre-install").await;
    let backup = helm.get("/apis/store.example.com/v1/namespaces/default/backups/db").await;
    assert_eq!(backup["spec"]["schedule"], "@daily");
    let budget = helm.get("/apis/policy/v1/namespaces/default/poddisruptionbudgets/db").await;
    assert_eq!(budget["spec"]["maxUnavailable"], 1);

    helm.deploy(&format!("upgrade db {chart}"), "revision=two,replicas=3").await;
    helm.until_replicas(SET, 3).await;
    assert_eq!(helm.kubectl("exec db-0 -- cat /data/revisions").await, "one\ntwo\n");
    assert_eq!(helm.kubectl("exec db-2 -- cat /data/revisions").await, "two\n");
    let hook = helm.get("/apis/batch/v1/namespaces/default/jobs/db-post-upgrade").await;
    assert_eq!(hook["status"]["succeeded"], 1);

    helm.run("rollback db 1", &WAIT).await;
    helm.until_replicas(SET, 2).await;
    assert_eq!(helm.kubectl("exec db-0 -- cat /data/revisions").await, "one\ntwo\none\n");
    helm.run("uninstall db", &WAIT).await;
    helm.gone(&format!("{PODS}?labelSelector=app%3Ddb")).await;
    // Helm deletes neither claims nor custom resource definitions.
    assert_eq!(helm.get(CLAIMS).await["items"].as_array().unwrap().len(), 3);
    helm.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/backups.store.example.com").await;

    helm.deploy(&format!("install db {chart}"), "revision=three").await;
    assert_eq!(helm.kubectl("exec db-1 -- cat /data/revisions").await, "one\ntwo\none\nthree\n");
}
