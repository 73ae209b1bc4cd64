//! Controllers inside a master, observed with kubectl: namespace deletion, garbage collection, service accounts,
//! certificates, quotas and limit ranges.

use std::process::Stdio;

use rustix::process::Signal;
use tests::{DEADLINE, Etcd, Master, Output, binary, wait_until};

/// Runs kubectl as administrator.
async fn tried(master: &Master, arguments: &[&str]) -> Output {
    let admin = master.data_dir().join("admin.kubeconfig");
    master.kubectl(&admin, arguments).await
}

/// Output of a kubectl command that must succeed.
async fn kubectl(master: &Master, arguments: &[&str]) -> String {
    let output = tried(master, arguments).await;
    assert!(output.code == 0, "kubectl {}: {output:?}\n{}", arguments.join(" "), master.log());
    output.stdout
}

/// Error output of a kubectl command that must be rejected.
async fn refused(master: &Master, arguments: &[&str]) -> String {
    let output = tried(master, arguments).await;
    assert!(output.code != 0, "kubectl {}: {output:?}", arguments.join(" "));
    output.stderr
}

/// Creates the objects of a manifest.
async fn create(master: &Master, manifest: &str) -> Output {
    let path = master.data_dir().join("manifest.yaml");
    std::fs::write(&path, manifest).unwrap();
    tried(master, &["create", "--validate=false", "-f", path.to_str().unwrap()]).await
}

async fn created(master: &Master, manifest: &str) {
    let output = create(master, manifest).await;
    assert!(output.code == 0, "{output:?}\n{manifest}\n{}", master.log());
}

/// Waits until kubectl prints the expected text.
async fn prints(master: &Master, arguments: &[&str], expected: &str) {
    let look = async || match tried(master, arguments).await {
        output if output.stdout.trim() == expected => Ok(()),
        output => Err(format!("{output:?}")),
    };
    wait_until(DEADLINE, look).await.unwrap_or_else(|seen| {
        panic!("kubectl {} does not print {expected:?}: {seen}\n{}", arguments.join(" "), master.log())
    });
}

/// Waits until the object does not exist any more.
async fn gone(master: &Master, arguments: &[&str]) {
    let arguments = [&["get", "--ignore-not-found", "-o", "name"], arguments].concat();
    prints(master, &arguments, "").await;
}

fn owned(name: &str, owner: &str, uid: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  ownerReferences:\n  - apiVersion: v1\n    \
         kind: ConfigMap\n    name: {owner}\n    uid: {uid}\n    blockOwnerDeletion: true\n{more}"
    )
}

fn pod(name: &str, resources: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: shop\nspec:\n  containers:\n  - name: c\n    \
         image: nothing\n    resources: {resources}\n"
    )
}

const UID: &str = "jsonpath={.metadata.uid}";

#[tokio::test]
async fn namespace_gets_service_account_and_ca_and_is_deleted_with_its_content() {
    let master = Master::running().await;
    created(
        &master,
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\nspec:\n  finalizers: [kubernetes]\n",
    )
    .await;
    prints(&master, &["get", "serviceaccount", "-n", "shop", "-o", "name"], "serviceaccount/default").await;
    let certificate =
        ["get", "configmap", "kube-root-ca.crt", "-n", "shop", "-o", "jsonpath={.data.ca\\.crt}"];
    let root = master.admin().unwrap().authority;
    prints(&master, &certificate, root.trim()).await;
    kubectl(
        &master,
        &["patch", "configmap", "kube-root-ca.crt", "-n", "shop", "-p", "{\"data\":{\"ca.crt\":\"mine\"}}"],
    )
    .await;
    prints(&master, &certificate, root.trim()).await;
    kubectl(&master, &["delete", "serviceaccount", "default", "-n", "shop"]).await;
    prints(&master, &["get", "serviceaccount", "-n", "shop", "-o", "name"], "serviceaccount/default").await;

    created(&master, &pod("web", "{}")).await;
    kubectl(&master, &["create", "secret", "generic", "s", "-n", "shop"]).await;
    kubectl(&master, &["create", "deployment", "d", "--image=i", "-n", "shop"]).await;
    created(
        &master,
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: held\n  namespace: shop\n  finalizers: [example.com/hold]\n",
    )
    .await;
    kubectl(&master, &["delete", "namespace", "shop", "--wait=false"]).await;
    let condition =
        "jsonpath={.status.phase} {.status.conditions[?(@.type==\"NamespaceFinalizersRemaining\")].message}";
    prints(
        &master,
        &["get", "namespace", "shop", "-o", condition],
        "Terminating Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
    )
    .await;
    gone(&master, &["pods,secrets,deployments,serviceaccounts", "-n", "shop"]).await;
    let late = refused(&master, &["create", "configmap", "late", "-n", "shop"]).await;
    assert!(late.contains("because it is being terminated"), "{late}");
    kubectl(
        &master,
        &["patch", "configmap", "held", "-n", "shop", "-p", "{\"metadata\":{\"finalizers\":null}}"],
    )
    .await;
    gone(&master, &["namespace", "shop"]).await;
}

#[tokio::test]
async fn dependents_follow_all_three_propagation_policies() {
    let master = Master::running().await;
    for name in ["background", "foreground", "orphan"] {
        kubectl(&master, &["create", "configmap", name]).await;
        let uid = kubectl(&master, &["get", "configmap", name, "-o", UID]).await;
        created(&master, &owned(&format!("{name}-child"), name, &uid, "")).await;
        let child = kubectl(&master, &["get", "configmap", &format!("{name}-child"), "-o", UID]).await;
        created(&master, &owned(&format!("{name}-grandchild"), &format!("{name}-child"), &child, "")).await;
    }
    for name in ["background", "foreground"] {
        kubectl(&master, &["delete", "configmap", name, &format!("--cascade={name}")]).await;
        let family = [name.to_owned(), format!("{name}-child"), format!("{name}-grandchild")];
        for member in &family {
            gone(&master, &["configmap", member]).await;
        }
    }
    kubectl(&master, &["delete", "configmap", "orphan", "--cascade=orphan"]).await;
    gone(&master, &["configmap", "orphan"]).await;
    let owners = "jsonpath={.metadata.ownerReferences[*].name}";
    prints(&master, &["get", "configmap", "orphan-child", "-o", owners], "").await;
    prints(&master, &["get", "configmap", "orphan-grandchild", "-o", owners], "orphan-child").await;

    // Foreground deletion of an owner waits for a dependent with a finalizer.
    kubectl(&master, &["create", "configmap", "patient"]).await;
    let uid = kubectl(&master, &["get", "configmap", "patient", "-o", UID]).await;
    created(&master, &owned("slow", "patient", &uid, "  finalizers: [example.com/hold]\n")).await;
    kubectl(&master, &["delete", "configmap", "patient", "--cascade=foreground", "--wait=false"]).await;
    let ending = "jsonpath={.metadata.deletionGracePeriodSeconds}";
    prints(&master, &["get", "configmap", "slow", "-o", ending], "0").await;
    let waits = "jsonpath={.metadata.finalizers[0]}";
    prints(&master, &["get", "configmap", "patient", "-o", waits], "foregroundDeletion").await;
    kubectl(&master, &["patch", "configmap", "slow", "-p", "{\"metadata\":{\"finalizers\":null}}"]).await;
    gone(&master, &["configmap", "slow"]).await;
    gone(&master, &["configmap", "patient"]).await;
}

#[tokio::test]
async fn owner_in_another_namespace_is_ignored_with_an_event() {
    let master = Master::running().await;
    kubectl(&master, &["create", "namespace", "far"]).await;
    kubectl(&master, &["create", "configmap", "owner", "-n", "far"]).await;
    let uid = kubectl(&master, &["get", "configmap", "owner", "-n", "far", "-o", UID]).await;
    let namespace = kubectl(&master, &["get", "namespace", "far", "-o", UID]).await;
    created(&master, &owned("lost", "owner", &uid, "")).await;
    gone(&master, &["configmap", "lost"]).await;
    let reasons = ["get", "events", "-o", "jsonpath={.items[*].reason} {.items[*].involvedObject.name}"];
    prints(&master, &reasons, "OwnerRefInvalidNamespace lost").await;
    // A cluster-scoped object may own a namespaced one.
    let citizen = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: citizen\n  ownerReferences:\n  - apiVersion: v1\n    kind: Namespace\n    \
         name: far\n    uid: {namespace}\n"
    );
    created(&master, &citizen).await;
    kubectl(&master, &["delete", "namespace", "far"]).await;
    gone(&master, &["configmap", "citizen"]).await;
}

#[tokio::test]
async fn limit_ranges_and_quotas_use_the_stock_defaults_and_messages() {
    let master = Master::running().await;
    kubectl(&master, &["create", "namespace", "shop"]).await;
    created(
        &master,
        "apiVersion: v1\nkind: LimitRange\nmetadata:\n  name: range\n  namespace: shop\nspec:\n  limits:\n  - type: Container\n    \
         default: {cpu: 200m}\n    defaultRequest: {cpu: 100m}\n    max: {cpu: \"1\"}\n",
    )
    .await;
    kubectl(
        &master,
        &["create", "quota", "q", "-n", "shop", "--hard=pods=2,requests.cpu=250m,count/secrets=1"],
    )
    .await;
    // The server lets a pod wait for the first count, and for the service account, for two seconds only.
    prints(&master, &["get", "quota", "q", "-n", "shop", "-o", "jsonpath={.status.used.pods}"], "0").await;
    master.until_account("shop").await;
    let much = create(&master, &pod("much", "{limits: {cpu: \"2\"}}")).await;
    let expected = "pods \"much\" is forbidden: maximum cpu usage per Container is 1, but limit is 2";
    assert!(much.stderr.contains(expected), "{much:?}");
    created(&master, &pod("a", "{}")).await;
    let resources =
        "jsonpath={.spec.containers[0].resources.requests.cpu} {.spec.containers[0].resources.limits.cpu}";
    assert_eq!(kubectl(&master, &["get", "pod", "a", "-n", "shop", "-o", resources]).await, "100m 200m");
    created(&master, &pod("b", "{}")).await;
    let third = create(&master, &pod("c", "{}")).await;
    let expected = "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=100m, \
                    used: pods=2,requests.cpu=200m, limited: pods=2,requests.cpu=250m";
    assert!(third.stderr.contains(expected), "{third:?}");
    let described = kubectl(&master, &["describe", "quota", "q", "-n", "shop"]).await;
    let words: Vec<Vec<&str>> = described.lines().map(|line| line.split_whitespace().collect()).collect();
    for line in [["pods", "2", "2"], ["requests.cpu", "200m", "250m"], ["count/secrets", "0", "1"]] {
        assert!(words.iter().any(|words| words[..] == line), "{line:?} is not in\n{described}");
    }
    // Deleting a pod releases its quota.
    kubectl(&master, &["delete", "pod", "a", "-n", "shop", "--now"]).await;
    let used = [
        "get",
        "quota",
        "q",
        "-n",
        "shop",
        "-o",
        "jsonpath={.status.used.pods} {.status.used.requests\\.cpu}",
    ];
    prints(&master, &used, "1 100m").await;
    created(&master, &pod("c", "{}")).await;
}

#[tokio::test]
async fn quota_holds_for_concurrent_creates() {
    let master = Master::running().await;
    kubectl(&master, &["create", "namespace", "shop"]).await;
    kubectl(&master, &["create", "quota", "q", "-n", "shop", "--hard=count/secrets=5"]).await;
    let counted = ["get", "quota", "q", "-n", "shop", "-o", "jsonpath={.status.used.count/secrets}"];
    prints(&master, &counted, "0").await;
    let one = async |number: usize| {
        tried(&master, &["create", "secret", "generic", &format!("s{number}"), "-n", "shop"]).await.code == 0
    };
    let (a, b, c, d) = tokio::join!(
        async { usize::from(one(0).await) + usize::from(one(1).await) },
        async { usize::from(one(2).await) + usize::from(one(3).await) },
        async { usize::from(one(4).await) + usize::from(one(5).await) },
        async { usize::from(one(6).await) + usize::from(one(7).await) },
    );
    assert_eq!(a + b + c + d, 5, "{}", master.log());
    assert_eq!(kubectl(&master, &counted).await, "5");
}

#[tokio::test]
async fn pod_gets_the_admission_defaults_of_the_stock_server() {
    let mut master = Master::new().with_flags(["--scheduling-gates", "example.com/images,example.com/place"]);
    master.start().await;
    kubectl(&master, &["create", "namespace", "shop"]).await;
    master.until_account("shop").await;
    created(
        &master,
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata:\n  name: high\nvalue: 1000\n",
    )
    .await;
    created(
        &master,
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: shop\nspec:\n  priorityClassName: high\n  \
         containers:\n  - name: c\n    image: nothing\n",
    )
    .await;
    let show = |path: &'static str| {
        let master = &master;
        async move { kubectl(master, &["get", "pod", "p", "-n", "shop", "-o", path]).await }
    };
    assert_eq!(show("jsonpath={.spec.serviceAccountName} {.spec.priority}").await, "default 1000");
    let volume = show("jsonpath={.spec.volumes[0].name}").await;
    assert!(
        volume.starts_with("kube-api-access-") && volume.len() == "kube-api-access-".len() + 5,
        "{volume}"
    );
    assert_eq!(
        show("jsonpath={.spec.containers[0].volumeMounts[0].mountPath}").await,
        "/var/run/secrets/kubernetes.io/serviceaccount"
    );
    assert_eq!(
        show("jsonpath={.spec.tolerations[*].key}").await,
        "node.kubernetes.io/not-ready node.kubernetes.io/unreachable"
    );
    assert_eq!(
        show("jsonpath={.spec.schedulingGates[*].name}").await,
        "example.com/images example.com/place"
    );
    let classes = kubectl(&master, &["get", "priorityclasses", "-o", "name"]).await;
    assert!(
        classes.contains("system-node-critical") && classes.contains("system-cluster-critical"),
        "{classes}"
    );
    let bad = pod("x", "{}").replace("spec:\n", "spec:\n  priorityClassName: none\n");
    let bad = create(&master, &bad).await;
    assert!(bad.stderr.contains("no PriorityClass with name none was found"), "{bad:?}");
    let bad = pod("x", "{}").replace("spec:\n", "spec:\n  serviceAccountName: nobody\n");
    let bad = create(&master, &bad).await;
    let expected = "error looking up service account shop/nobody: serviceaccount \"nobody\" not found";
    assert!(bad.stderr.contains(expected), "{bad:?}");
}

#[tokio::test]
async fn standby_master_takes_over_the_controllers() {
    const HOLDER: [&str; 7] = [
        "get",
        "lease",
        "kube-controller-manager",
        "-n",
        "kube-system",
        "-o",
        "jsonpath={.spec.holderIdentity}",
    ];
    // Checks for objects that only a controller creates.
    let works = async |master: &Master, namespace: &str| {
        kubectl(master, &["create", "namespace", namespace]).await;
        let accounts = ["get", "serviceaccount", "-n", namespace, "-o", "name"];
        prints(master, &accounts, "serviceaccount/default").await;
    };
    let runs = |master: &Master| master.log().contains("controllers are running");
    let etcd = Etcd::running().await;
    let mut first = etcd.master();
    first.start().await;
    works(&first, "one").await;
    let held_by_first = kubectl(&first, &HOLDER).await;
    assert!(held_by_first.contains(&format!(":{}_", first.port)), "{held_by_first}");
    let mut second = etcd.master_beside(&first);
    second.start().await;
    works(&second, "two").await;
    assert!(!runs(&second), "{}", second.log());

    first.kill();
    works(&second, "three").await;
    let held_by_second = kubectl(&second, &HOLDER).await;
    assert!(held_by_second.contains(&format!(":{}_", second.port)), "{held_by_second}");

    // After its restart, the killed master is a standby.
    first.start().await;
    works(&first, "four").await;
    assert_eq!(kubectl(&first, &HOLDER).await, held_by_second);
    assert!(second.stop(Signal::TERM).await.success());
    works(&first, "five").await;
    assert_eq!(kubectl(&first, &HOLDER).await, held_by_first);
}

#[tokio::test]
async fn one_of_two_masters_behind_one_address_runs_controllers() {
    const LEASE: [&str; 5] = ["get", "lease", "kube-controller-manager", "-n", "kube-system"];
    let etcd = Etcd::running().await;
    let url = etcd.url();
    let flags = ["--storage", "etcd", "--etcd-servers", &url, "--advertise-address", "127.0.0.1"];
    let at = |address: &'static str| [&flags[..], &["--bind-address", address]].concat();
    let mut first = etcd.master().with_flags(at("127.0.0.1"));
    first.start().await;
    const WORKS: &str = "controllers are running";
    let has_logged = async |master: &Master, words: &str| match master.log() {
        log if log.contains(words) => Ok(()),
        log => Err(log),
    };
    wait_until(DEADLINE, async || has_logged(&first, WORKS).await).await.unwrap();
    let port = first.port.to_string();
    let there = [at("127.0.0.2"), vec!["--secure-port", &port]].concat();
    let mut second = etcd.master_beside(&first).with_flags(there);
    second.launch();
    wait_until(DEADLINE, async || has_logged(&second, "serving").await).await.unwrap();
    // The standby polls the lease more often than the holder renews it.
    let version = async || {
        kubectl(&first, &[&LEASE[..], &["-o", "jsonpath={.metadata.resourceVersion}"]].concat()).await
    };
    for _ in 0..2 {
        let before = version().await;
        let renewed = async || if version().await == before { Err(before.clone()) } else { Ok(()) };
        wait_until(DEADLINE, renewed).await.unwrap();
    }
    assert!(!second.log().contains(WORKS), "{}", second.log());
    first.kill();
    wait_until(DEADLINE, async || has_logged(&second, WORKS).await).await.unwrap();
}

#[tokio::test]
async fn controllers_run_in_a_separate_process() {
    let mut master = Master::new().with_flags(["--controllers", "none"]);
    master.start().await;
    kubectl(&master, &["create", "namespace", "shop"]).await;
    assert_eq!(kubectl(&master, &["get", "serviceaccounts", "-A", "-o", "name"]).await, "");
    let mut command = tokio::process::Command::new(binary("master"));
    command.arg("controllers").arg("--kubeconfig").arg(master.data_dir().join("admin.kubeconfig"));
    let mut controllers = command.stdin(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    prints(&master, &["get", "serviceaccount", "-n", "shop", "-o", "name"], "serviceaccount/default").await;
    kubectl(&master, &["create", "configmap", "owner"]).await;
    let uid = kubectl(&master, &["get", "configmap", "owner", "-o", UID]).await;
    created(&master, &owned("child", "owner", &uid, "")).await;
    kubectl(&master, &["delete", "configmap", "owner"]).await;
    gone(&master, &["configmap", "child"]).await;
    assert!(controllers.try_wait().unwrap().is_none(), "they run on");
}

#[tokio::test]
async fn controllers_without_permission_or_server_report_the_remedy() {
    let mut master = Master::new().with_flags(["--controllers", "none"]);
    master.start().await;
    let joe = master.data_dir().join("joe.kubeconfig");
    std::fs::write(&joe, master.verb(&["kubeconfig", "--user", "joe"]).await.stdout).unwrap();
    let unreachable = master.data_dir().join("unreachable.kubeconfig");
    let text = std::fs::read_to_string(&joe).unwrap();
    std::fs::write(&unreachable, text.replace(&format!(":{}", master.port), ":1")).unwrap();
    for (kubeconfig, words) in
        [(joe, "--group system:masters"), (unreachable, "look whether the master runs")]
    {
        let log = kubeconfig.with_extension("log");
        let mut command = tokio::process::Command::new(binary("master"));
        command.arg("controllers").arg("--kubeconfig").arg(&kubeconfig).stdin(Stdio::null());
        command.stderr(std::fs::File::create(&log).unwrap());
        let _running = command.kill_on_drop(true).spawn().unwrap();
        let look = async || {
            let log_text = std::fs::read_to_string(&log).unwrap();
            let is_reported = log_text.lines().any(|line| line.contains("WARN") && line.contains(words));
            if is_reported { Ok(()) } else { Err(log_text) }
        };
        wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{words} is not in {seen}"));
    }
}
