//! `master check`: a healthy cluster, a master that is unreachable for several reasons, and a cluster with many
//! problems.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use jiff::{Timestamp, ToSpan as _};
use master::kubeconfig::Kubeconfig;
use master::pki::Pki;
use rustix::process::Signal;
use serde_json::{Value, json};
use tests::{DEADLINE, Master, wait_until};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

/// Runs the command. Returns exit code and output.
async fn check(master: &Master, arguments: &[&str]) -> (i32, String) {
    let output = master.verb(&[&["check"], arguments].concat()).await;
    assert_eq!(output.stderr, "", "{output:?}");
    (output.code, output.stdout)
}

/// As `check`, with JSON output.
async fn checked(master: &Master, arguments: &[&str]) -> (i32, Value) {
    let (code, text) = check(master, &[&["--format", "json"], arguments].concat()).await;
    (code, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

/// Findings of one severity (`problems`, `warnings`), except those that the test machine causes.
fn finding_lines(report: &Value, of: &str) -> Vec<String> {
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    let all = report[of].as_array().unwrap().iter().filter(|finding| finding["check"] != "disk");
    all.map(|finding| {
        assert!(!text(finding, "remedy").is_empty(), "{finding}");
        format!("{}: {}: {}", text(finding, "about"), text(finding, "what"), text(finding, "cause"))
    })
    .collect()
}

/// A modified copy of the administrator's kubeconfig.
fn changed(master: &Master, change: impl FnOnce(&mut Kubeconfig)) -> PathBuf {
    let mut config = master.admin().unwrap();
    change(&mut config);
    let path = master.data_dir().join("other.kubeconfig");
    fs::write(&path, config.text()).unwrap();
    path
}

/// Sends an object as administrator and checks that the master accepts it.
async fn send(master: &Master, method: reqwest::Method, path: &str, object: &Value) {
    let url = format!("https://127.0.0.1:{}{path}", master.port);
    let patch = "application/merge-patch+json";
    let media_type = if method == reqwest::Method::PATCH { patch } else { "application/json" };
    let request = master.client().request(method, url).header("content-type", media_type);
    let response = request.body(object.to_string()).send().await.unwrap();
    let code = response.status();
    assert!(code.is_success(), "{path} {code} {}\n{}", response.text().await.unwrap(), master.log());
}

async fn create(master: &Master, path: &str, object: &Value) {
    send(master, reqwest::Method::POST, path, object).await;
}

#[tokio::test]
async fn a_fresh_master_is_healthy() {
    let master = Master::running().await;
    let (code, report) = checked(&master, &[]).await;
    assert_eq!(
        (finding_lines(&report, "problems"), finding_lines(&report, "warnings")),
        (vec![], vec![]),
        "{report:#}"
    );
    assert_eq!((code, &report["healthy"]), (0, &json!(true)), "{report:#}");
    let (code, text) = check(&master, &[]).await;
    assert!(code == 0 && text.contains(" checks fine") && !text.contains("problem"), "{text}");
    // A kubeconfig suffices, from any machine.
    let admin = master.data_dir().join("admin.kubeconfig");
    let nowhere = Master::new();
    let mut alone = tokio::process::Command::new(tests::binary("master"));
    alone.arg("check").arg("--kubeconfig").arg(&admin).env("HOME", nowhere.data_dir());
    let output = alone.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test]
async fn check_reports_why_the_master_is_unreachable() {
    let mut master = Master::new();
    let directory = master.data_dir().display().to_string();
    let check_prints = async |master: &Master, arguments: &[&str], words: &[&str]| {
        let (code, text) = check(master, arguments).await;
        assert_eq!(code, 1, "{text}");
        let missing: Vec<_> = words.iter().filter(|word| !text.contains(**word)).collect();
        assert!(missing.is_empty(), "{missing:?} are not in\n{text}");
    };
    let run = format!("`master run --data-dir {directory}`");
    check_prints(&master, &[], &["admin.kubeconfig is not there: no master has run on that directory", &run])
        .await;
    master.start().await;
    let port = master.port.number;
    let other = changed(&master, |config| config.server = "https://127.0.0.1:1".to_owned());
    let with = async |path: &PathBuf, words: &[&str]| {
        check_prints(&master, &["--kubeconfig", path.to_str().unwrap()], words).await;
    };
    with(&other, &["nothing listens at https://127.0.0.1:1", "but not at the address in"]).await;
    let other = changed(&master, |config| config.server = format!("https://127.0.0.2:{port}"));
    with(&other, &["is not valid for that name: it is valid for ", "`--tls-san`"]).await;
    let other = changed(&master, |config| config.authority = "no PEM".to_owned());
    with(&other, &["1 problem"]).await;
    let other = changed(&master, |config| config.credentials.key = "no PEM".to_owned());
    with(&other, &["other.kubeconfig cannot be used: ", "kubeconfig --user NAME`"]).await;
    fs::write(&other, "apiVersion: v1\nkind: Config\nusers: [{name: a, user: {token: t}}]\n").unwrap();
    with(&other, &["other.kubeconfig is not as a master writes it", "use admin.kubeconfig"]).await;

    // Another cluster, once as the server and once as the issuer of the client certificate.
    let stranger = Master::running().await.admin().unwrap();
    let other = changed(&master, |config| config.authority.clone_from(&stranger.authority));
    with(&other, &["has a certificate of a CA that", "the master of another cluster"]).await;
    let other = changed(&master, |config| config.credentials = stranger.credentials.clone());
    with(&other, &["does not trust the CA of the certificate in", "another cluster"]).await;
    let (now, long_ago) = (Timestamp::now(), Timestamp::now() - (24 * 500).hours());
    let pki = Pki::read(&master.data_dir().join("pki"), now).unwrap();
    let expired = pki.client("joe", &[], long_ago).unwrap();
    let other = changed(&master, |config| config.credentials = expired);
    with(&other, &["rejects the certificate in", "it has expired", "joe has expired on"]).await;

    // Another program listens on the port.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("https://{}", listener.local_addr().unwrap());
    let answers = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            // A closed connection would be reported as a write error.
            open.push(stream);
        }
    });
    let other = changed(&master, |config| config.server = server);
    with(&other, &["does not speak TLS", "another server listens there"]).await;
    answers.abort();

    master.stop(Signal::TERM).await;
    let no_master =
        format!("nothing listens at https://127.0.0.1:{port}: no master is running on {directory}");
    check_prints(&master, &[], &[&no_master, &run]).await;
    fs::write(master.data_dir().join("pki/intermediate.crt"), "damaged").unwrap();
    check_prints(&master, &[], &["pki/intermediate.crt: cannot be read: it contains no certificate"]).await;
}

#[tokio::test]
async fn check_findings_of_a_cluster_name_their_cause() {
    // No kubelet sends heartbeats here, so the node keeps its condition only during a long grace period.
    let mut master = Master::new().with_flags(["--node-monitor-grace-period=1h"]);
    master.start().await;
    create(&master, "/api/v1/namespaces", &json!({"metadata": {"name": "shop"}})).await;
    create(&master, "/api/v1/namespaces", &json!({"metadata": {"name": "held"}})).await;
    let ready =
        json!([{"type": "Ready", "status": "False", "reason": "Down", "message": "the engine is away"}]);
    let node = json!({"metadata": {"name": "n1"}, "spec": {"unschedulable": true}, "status": {"conditions": ready, "nodeInfo": {"kubeletVersion": "v1.37.0"}}});
    create(&master, "/api/v1/nodes", &node).await;
    master.until_account("shop").await;
    let pods = "/api/v1/namespaces/shop/pods";
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    for (name, status) in [
        (
            "stuck",
            json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}]}),
        ),
        (
            "mad",
            json!({"phase": "Running", "containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 9, "state": waiting}]}),
        ),
    ] {
        let pod = json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        create(&master, pods, &pod).await;
        let path = format!("{pods}/{name}/status");
        send(&master, reqwest::Method::PATCH, &path, &json!({"status": status})).await;
    }
    let service =
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    create(&master, "/api/v1/namespaces/shop/services", &service).await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}});
    create(&master, "/api/v1/namespaces/shop/resourcequotas", &quota).await;
    let budget = json!({"metadata": {"name": "b"}, "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}});
    create(&master, "/apis/policy/v1/namespaces/shop/poddisruptionbudgets", &budget).await;
    let claim = json!({"metadata": {"name": "c"}, "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    create(&master, "/api/v1/namespaces/shop/persistentvolumeclaims", &claim).await;
    for plural in ["widgets", "gadgets"] {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let definition = json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        }});
        create(&master, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    }
    let hook = json!({"name": "w.example.com", "clientConfig": {"service": {"namespace": "shop", "name": "gone"}}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "rules": []});
    let hooks = json!({"metadata": {"name": "guard"}, "webhooks": [hook]});
    create(&master, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", &hooks).await;
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    for (name, subject) in [
        (
            "open",
            json!({"kind": "User", "name": "system:anonymous", "apiGroup": "rbac.authorization.k8s.io"}),
        ),
        ("lazy", json!({"kind": "ServiceAccount", "name": "default", "namespace": "shop"})),
    ] {
        let role =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
        create(
            &master,
            bindings,
            &json!({"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}),
        )
        .await;
    }
    let event = json!({"metadata": {"name": "e"}, "type": "Warning", "reason": "FailedMount", "message": "no such volume", "count": 4,
        "lastTimestamp": Timestamp::now().to_string(), "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "mad"}});
    create(&master, "/api/v1/namespaces/shop/events", &event).await;
    let held = json!({"metadata": {"name": "m", "finalizers": ["example.com/hold"]}});
    create(&master, "/api/v1/namespaces/held/configmaps", &held).await;
    let admin = master.data_dir().join("admin.kubeconfig");
    master.kubectl(&admin, &["delete", "namespace", "held", "--wait=false"]).await;

    let (problems, warnings) = (
        [
            "Node n1: is not ready: Down: the engine is away",
            "Node n1: its kubelet has version v1.37.0 and the server v1.36.0",
            "Pod shop/stuck: is Pending: Unschedulable: no room",
            "Pod shop/mad: the container c crashes repeatedly (9 restarts)",
            "PersistentVolumeClaim shop/c: is Pending: there is no storage class fast",
            "CustomResourceDefinition gadgets.example.com: has names that are in use",
            "ClusterRoleBinding open: grants the ClusterRole cluster-admin to unauthenticated users",
        ],
        [
            "Node n1: accepts no new pods: it is cordoned",
            "nodes: none accepts pods without tolerations",
            "Namespace held: is stuck in deletion: Some content in the namespace has finalizers remaining: example.com/hold",
            "Service shop/web: has no ready endpoints: no pod matches the selector app=web",
            "ResourceQuota shop/q: is exhausted: pods 2 of 2",
            "PodDisruptionBudget shop/b: allows no eviction",
            "ValidatingWebhookConfiguration guard: the webhook w.example.com has no service: the service shop/gone does not exist",
            "webhooks: 1 configuration stored, but none is called",
            "ClusterRoleBinding lazy: grants cluster-admin to all pods of shop without their own service account",
            "Warning FailedMount: 4 recent events about 1 object: Pod shop/mad: no such volume",
            "Warning ProvisioningFailed: 1 recent event about 1 object: PersistentVolumeClaim shop/c",
        ],
    );
    // Meanwhile controllers count quotas, detect conflicts and empty namespaces.
    let look = async || {
        let (code, report) = checked(&master, &[]).await;
        assert_eq!((code, &report["healthy"]), (1, &json!(false)), "{report:#}");
        let (bad, odd) = (finding_lines(&report, "problems"), finding_lines(&report, "warnings"));
        let lacks = |finding_lines: &[String], wanted: &[&str]| -> Vec<String> {
            let missing =
                wanted.iter().filter(|words| !finding_lines.iter().any(|line| line.starts_with(**words)));
            missing.map(|words| (*words).to_owned()).collect()
        };
        let missing = [lacks(&bad, &problems), lacks(&odd, &warnings)].concat();
        let expected = problems.len() + warnings.len();
        match missing.is_empty() && bad.len() + odd.len() == expected {
            true => Ok(()),
            false => Err(format!("{missing:#?} missing of {expected}, found {bad:#?} {odd:#?}")),
        }
    };
    wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{seen}\n{}", master.log()));
    let (_, text) = check(&master, &[]).await;
    let last = text.lines().last().unwrap();
    assert!(last.contains(" checks fine, 7 problems, "), "{text}");
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with(
            "Node n1: is not ready: Down: the engine is away; for details see `kubectl describe node n1`"
        ),
        "{text}"
    );
}

#[tokio::test]
async fn changed_service_cidr_is_published_and_services_outside_of_it_are_findings() {
    let mut master = Master::running().await;
    let admin = master.data_dir().join("admin.kubeconfig");
    let range = async |master: &Master, cidrs: &str| {
        let columns = "jsonpath={.spec.cidrs} {.status.conditions[?(@.type==\"Ready\")].status}";
        let look = async || {
            let seen = master.kubectl(&admin, &["get", "servicecidr", "kubernetes", "-o", columns]).await;
            if seen.stdout == format!("[{cidrs}] True") { Ok(()) } else { Err(format!("{seen:?}")) }
        };
        let seen = wait_until(DEADLINE, look).await;
        seen.unwrap_or_else(|seen| panic!("{cidrs}: {seen}\n{}", master.log()));
    };
    range(&master, "\"10.96.0.0/12\"").await;
    let service =
        json!({"metadata": {"name": "old"}, "spec": {"clusterIP": "10.96.1.1", "ports": [{"port": 80}]}});
    create(&master, "/api/v1/namespaces/default/services", &service).await;
    master.until_found("/api/v1/namespaces/default/services/kubernetes").await;
    master.stop(Signal::TERM).await;
    let warning = "services have IPs outside --service-cluster-ip-range";
    assert!(!master.log().contains(warning), "{}", master.log());

    let mut master = master.with_flags(["--service-cluster-ip-range", "10.0.0.0/16,fd00::/112"]);
    master.start().await;
    range(&master, "\"10.0.0.0/16\",\"fd00::/112\"").await;
    let log = master.log();
    let finding_lines: Vec<&str> = log.lines().filter(|line| line.contains(warning)).collect();
    assert!(
        finding_lines.len() == 1
            && finding_lines[0].contains("WARN")
            && finding_lines[0].contains("services=2"),
        "{log}"
    );
    let warnings = failed_check_output(&master, "service addresses").await;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let words =
        ["and 1 service like it, which is outside 10.0.0.0/16, fd00::/112", "`--service-cluster-ip-range`"];
    assert!(words.iter().all(|words| warnings[0].contains(words)), "{warnings:?}");

    // Apply the remedies.
    let gone = master.kubectl(&admin, &["delete", "service", "old", "kubernetes"]).await;
    assert_eq!(gone.code, 0, "{gone:?}");
    let look = async || {
        let found = master
            .kubectl(&admin, &["get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}"])
            .await;
        if found.stdout == "10.0.0.1" { Ok(()) } else { Err(format!("{found:?}")) }
    };
    wait_until(DEADLINE, look).await.unwrap();
    assert_eq!(failed_check_output(&master, "service addresses").await, Vec::<String>::new());
}

/// Findings of one check: problem and remedy.
async fn failed_check_output(master: &Master, check: &str) -> Vec<String> {
    let (_, report) = checked(master, &[]).await;
    let all = ["problems", "warnings"].into_iter().flat_map(|of| report[of].as_array().unwrap());
    let of_check = all.filter(|finding| finding["check"] == check);
    of_check.map(|finding| format!("{}; {}", finding["what"], finding["remedy"])).collect()
}

#[tokio::test]
async fn check_by_an_unauthorized_user_reports_the_reason() {
    let master = Master::running().await;
    let joe = master.verb(&["kubeconfig", "--user", "joe"]).await.stdout;
    let path = master.data_dir().join("joe.kubeconfig");
    fs::write(&path, joe).unwrap();
    let (code, report) = checked(&master, &["--kubeconfig", path.to_str().unwrap()]).await;
    let problems = finding_lines(&report, "problems");
    assert_eq!((code, &report["healthy"]), (1, &json!(false)), "its health is unknown: {report:#}");
    assert_eq!(problems.len(), 1, "{problems:#?}");
    let words = [
        "kubeconfig: this user may not list ",
        "pods, ",
        "leases.coordination.k8s.io, ",
        "403 Forbidden: ",
        "User \"joe\"",
    ];
    assert!(words.iter().all(|words| problems[0].contains(words)), "{problems:#?}");
    // The suggested remedy works.
    let (_, text) = check(&master, &["--kubeconfig", path.to_str().unwrap()]).await;
    let commands: Vec<&str> = text.split('`').filter(|part| part.starts_with("kubectl create ")).collect();
    assert_eq!(commands.len(), 2, "{text}");
    let admin = master.data_dir().join("admin.kubeconfig");
    for command in commands {
        let command = command.replace("NAME", "joe");
        let done = master.kubectl(&admin, &command.split(' ').skip(1).collect::<Vec<_>>()).await;
        assert_eq!(done.code, 0, "{command}: {done:?}");
    }
    let (_, report) = checked(&master, &["--kubeconfig", path.to_str().unwrap()]).await;
    assert_eq!(finding_lines(&report, "problems"), Vec::<String>::new());
}

#[tokio::test]
async fn readable_private_keys_are_a_finding() {
    let master = Master::running().await;
    for name in ["pki/root.key", "admin.kubeconfig"] {
        let path = master.data_dir().join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let (code, text) = check(&master, &[]).await;
    assert_eq!(code, 1, "{text}");
    for name in ["pki/root.key", "admin.kubeconfig"] {
        assert!(text.contains(&format!("{name}: is accessible to other users (mode 644)")), "{text}");
    }
    assert!(!text.contains("intermediate.key"), "{text}");
}
