//! A stock controller manager and a stock scheduler with the master, by the commands of `docs/stock-components.md`.
use std::path::{Path, PathBuf};
use std::process::Stdio;

use master::kubeconfig::Kubeconfig;
use serde_json::{Value, json};
use tests::{DEADLINE, Master, free_port, trusting, wait_until};
use tokio::process::{Child, Command};

use crate::stock_page::{command, stock_program};

/// Starts a program that is killed when the test ends.
fn start(program: &Path, arguments: &[String], log: &Path) -> Child {
    let log = std::fs::File::create(log).unwrap();
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    command.kill_on_drop(true).spawn().unwrap()
}

/// The page's arguments for a program, with the files of that master and a separate port.
pub async fn arguments(master: &Master, program: &str, user: &str, port: &str) -> Vec<String> {
    let kubeconfig = master.user(user, &[]).await.display().to_string();
    let directory = master.data_dir().display().to_string();
    let words = command(&format!("{program} --kubeconfig"));
    let mut words: Vec<String> = words[1..]
        .iter()
        .map(|word| match word.as_str() {
            "kcm.kubeconfig" | "sched.kubeconfig" => kubeconfig.clone(),
            word => word.replace("DIR/", &format!("{directory}/")),
        })
        .collect();
    let own = ["--bind-address", "127.0.0.1", "--port", "0", "--cert-dir", &directory].map(str::to_owned);
    words.extend(own);
    words.extend(["--secure-port".to_owned(), port.to_string()]);
    words
}

async fn get(master: &Master, arguments: &[&str]) -> Result<Value, String> {
    let all = [&["get", "-o", "json"], arguments].concat();
    let output = master.kubectl(&master.data_dir().join("admin.kubeconfig"), &all).await;
    serde_json::from_str(&output.stdout).map_err(|_| output.stderr)
}

async fn apply(master: &Master, objects: &[Value]) -> String {
    let file = master.data_dir().join("objects.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(&file, list.to_string()).unwrap();
    let create = ["apply", "--validate=false", "-f", file.to_str().unwrap()];
    let output = master.kubectl(&master.data_dir().join("admin.kubeconfig"), &create).await;
    assert_eq!(output.code, 0, "{output:?}");
    output.stderr
}

fn deployment(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}},
        },
    })
}

#[tokio::test]
async fn a_stock_controller_manager_leads_beside_the_master() {
    const PROGRAM: &str = "kube-controller-manager";
    let program = stock_program(PROGRAM);
    let run = command("master run --scheduler=true --controllers");
    let mut master = Master::new().with_flags(run[2..].to_vec());
    master.start().await;
    let free = free_port();
    let port = free.to_string();
    let words = arguments(&master, PROGRAM, "system:kube-controller-manager", &port).await;
    let log = master.data_dir().join("kcm.log");
    let _running = start(&program, &words, &log);
    let read_log = || std::fs::read_to_string(&log).unwrap_or_default();
    let read_log = || read_log().lines().rev().take(40).collect::<Vec<_>>().join("\n");

    let leads = async || {
        let lease = get(&master, &["lease", "kube-controller-manager", "-n", "kube-system"]).await?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
        if holder.is_empty() { Err("no leader".to_owned()) } else { Ok(()) }
    };
    wait_until(DEADLINE, leads).await.unwrap_or_else(|error| panic!("{error}\n{}", read_log()));

    // Deployments roll out as far as possible without a kubelet.
    let warnings = apply(&master, &[deployment("i:1")]).await;
    assert!(!warnings.contains("no controller acts"), "{warnings}");
    let pods = async |image: &str| {
        let pods = get(&master, &["pods", "-l", "app=web"]).await?;
        let with = |pod: &&Value| pod["spec"]["containers"][0]["image"] == image;
        let count = pods["items"].as_array().unwrap().iter().filter(with).count();
        if count > 0 { Ok(()) } else { Err(format!("no pod of {image}")) }
    };
    wait_until(DEADLINE, async || pods("i:1").await)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", read_log()));
    apply(&master, &[deployment("i:2")]).await;
    wait_until(DEADLINE, async || pods("i:2").await)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", read_log()));

    // Volume claims bind: the role of the volume binder has sufficient permissions.
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp/none"},
            "storageClassName": "manual"},
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "disk", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "manual", "resources": {"requests": {"storage": "1Gi"}}},
    });
    apply(&master, &[volume, claim]).await;
    let bound = async || match get(&master, &["pvc", "disk"]).await? {
        claim if claim["status"]["phase"] == "Bound" => Ok(()),
        claim => Err(claim["status"].to_string()),
    };
    wait_until(DEADLINE, bound).await.unwrap_or_else(|error| panic!("{error}\n{}", read_log()));
    let forbidden: Vec<String> = std::fs::read_to_string(&log)
        .unwrap()
        .lines()
        .filter(|line| line.contains("is forbidden"))
        .map(str::to_owned)
        .collect();
    assert!(forbidden.is_empty(), "{forbidden:#?}");
    authenticates(&master, PROGRAM, &port).await;
}

/// The component on that port authenticates and authorizes its clients through the master. An administrator can read
/// its metrics; a user without a role and a client without a certificate cannot.
async fn authenticates(master: &Master, program: &str, port: &str) {
    // The component serves with a self-signed certificate.
    let authority = std::fs::read_to_string(master.data_dir().join(format!("{program}.crt"))).unwrap();
    let client = |kubeconfig: Option<PathBuf>| {
        let own = kubeconfig
            .map(|path| Kubeconfig::read(&std::fs::read_to_string(path).unwrap()).unwrap().credentials);
        let own = own.as_ref().map(|own| (own.certificates.as_str(), own.key.as_str()));
        trusting(&authority, own).unwrap()
    };
    let code = async |client: &reqwest::Client| {
        let answer = client.get(format!("https://127.0.0.1:{port}/metrics")).send().await;
        answer.map(|answer| answer.status().as_u16()).map_err(|error| format!("{error:?}"))
    };
    let admin = client(Some(master.data_dir().join("admin.kubeconfig")));
    let is_let_in = async || match code(&admin).await {
        Ok(200) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    wait_until(DEADLINE, is_let_in).await.unwrap();
    let joe = client(Some(master.user("joe", &[]).await));
    assert_eq!(code(&joe).await, Ok(403));
    let refused = code(&client(None)).await.unwrap();
    assert!([401, 403].contains(&refused), "{refused}");
}

#[tokio::test]
async fn stock_scheduler_authenticates_its_clients_at_the_master() {
    const PROGRAM: &str = "kube-scheduler";
    let program = stock_program(PROGRAM);
    let mut master = Master::new().with_flags(["--scheduler=false"]);
    master.start().await;
    let free = free_port();
    let port = free.to_string();
    let words = arguments(&master, PROGRAM, "system:kube-scheduler", &port).await;
    let log = master.data_dir().join("scheduler.log");
    let _running = start(&program, &words, &log);
    let leads = async || {
        let lease = get(&master, &["lease", "kube-scheduler", "-n", "kube-system"]).await?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
        if holder.is_empty() { Err("no leader".to_owned()) } else { Ok(()) }
    };
    wait_until(DEADLINE, leads)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", std::fs::read_to_string(&log).unwrap_or_default()));
    authenticates(&master, PROGRAM, &port).await;
    let read_log = std::fs::read_to_string(&log).unwrap();
    assert!(
        !read_log.contains("is forbidden") && !read_log.contains("extension-apiserver-authentication-reader"),
        "{read_log}"
    );
}
