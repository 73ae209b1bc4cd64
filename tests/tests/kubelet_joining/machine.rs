//! A machine with a kubelet that wants into a cluster, and what a person sees of that.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tests::{Master, World};

/// A machine whose kubelet was given these flags, and runs.
pub async fn started(name: &str, flags: &[&str]) -> World {
    let mut world =
        World::new(name).await.with_flags(["--node-ip", "127.0.0.1"]).with_flags(flags.iter().copied());
    world.launch();
    world
}

/// The line of a master on this machine.
pub async fn line(master: &Master) -> String {
    let printed = master.verb(&["join-string"]).await;
    let (_, hash) = printed.stdout.trim_end().split_once('#').unwrap();
    format!("https://127.0.0.1:{}#{hash}", master.port)
}

/// A master that machines reach by the loopback.
pub async fn master(flags: &[&str]) -> Master {
    let own = ["--advertise-address", "127.0.0.1"];
    let mut master = Master::new().with_flags(own.iter().chain(flags).copied());
    master.start().await;
    master
}

/// Waits until the kubelet's log says so, and returns the line.
pub async fn says(world: &World, text: &str) -> String {
    let look = async || {
        let log = fs::read_to_string(world.log_path()).unwrap_or_default();
        log.lines().find(|line| line.contains(text)).map(str::to_owned).ok_or(log)
    };
    world.wait_for(&format!("the log to say {text:?}"), look).await
}

/// The file with the certificate and key of a node.
pub fn pem(world: &World, name: &str) -> PathBuf {
    world.root_dir().join("pki").join(name)
}

/// Waits until there is such a file, which nobody else may read, and returns what is in it.
pub async fn file(world: &World, path: &std::path::Path) -> String {
    let look = async || fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let text = world.wait_for(&format!("{}", path.display()), look).await;
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
    text
}

/// Waits until the node is in: its certificate, its kubeconfig, and that kubectl is the node with it.
pub async fn is_in(world: &World, master: &Master, user: &str) {
    file(world, &pem(world, "kubelet-client-current.pem")).await;
    let kubeconfig = world.root_dir().join("kubeconfig");
    file(world, &kubeconfig).await;
    let who = whoami(world, master, &[]).await;
    assert_eq!(who["status"]["userInfo"]["username"], format!("{user}{}", world.node));
    assert!(
        who["status"]["userInfo"]["groups"].as_array().unwrap().contains(&"system:nodes".into()),
        "{who}"
    );
}

/// Whom the master sees when kubectl goes by the kubeconfig that the node wrote: `auth whoami`, by a kubectl of any version.
pub async fn whoami(world: &World, master: &Master, more: &[&str]) -> Value {
    let review = world.path("whoami.json");
    fs::write(&review, r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}"#).unwrap();
    let ask = ["create", "--validate=false", "-o", "json", "-f", review.to_str().unwrap()];
    let said = master.kubectl(&world.root_dir().join("kubeconfig"), &[more, &ask].concat()).await;
    assert_eq!(said.code, 0, "{said:?}");
    serde_json::from_str(&said.stdout).unwrap()
}

/// The requests for certificates of a signer that a master has.
pub async fn requests(master: &Master, signer: &str) -> Vec<Value> {
    let (_, text) = master.ask_as_admin("/apis/certificates.k8s.io/v1/certificatesigningrequests").await;
    let list: Value = serde_json::from_str(&text).unwrap();
    let all = list["items"].as_array().cloned().unwrap_or_default();
    all.into_iter().filter(|request| request["spec"]["signerName"] == signer).collect()
}

/// The signer of nodes as clients.
pub const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of nodes as servers.
pub const SERVING: &str = "kubernetes.io/kubelet-serving";

/// Runs kubectl as the administrator.
pub async fn admin(master: &Master, arguments: &[&str]) -> String {
    let output = master.kubectl(&master.data_dir().join("admin.kubeconfig"), arguments).await;
    assert_eq!(output.code, 0, "kubectl {arguments:?}: {output:?}\n{}", master.log());
    output.stdout
}

/// Makes a bootstrap token that expires so many hours from now, and a kubeconfig that shows it.
pub async fn token(world_file: &std::path::Path, master: &Master, hours: i64, groups: &str) {
    let expiration = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(hours);
    let secret = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
        "stringData": {
            "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            "expiration": expiration.to_string(), "auth-extra-groups": groups,
        },
    });
    let url = format!("https://127.0.0.1:{}/api/v1/namespaces/kube-system/secrets", master.port);
    let made = master.client().post(url).json(&secret).send().await.unwrap();
    assert_eq!(made.status().as_u16(), 201);
    let authority = &master.admin().unwrap().authority;
    let server = format!("https://127.0.0.1:{}", master.port);
    fs::write(world_file, by_token(&server, authority, "abcdef.0123456789abcdef")).unwrap();
}

/// A bootstrap kubeconfig as `kubeadm` writes it.
pub fn by_token(server: &str, authority: &str, token: &str) -> String {
    let authority = STANDARD.encode(authority);
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: bootstrap\n  cluster:\n    server: {server}\n    \
         certificate-authority-data: {authority}\ncontexts:\n- name: boot\n  context: {{cluster: bootstrap, user: \
         tls-bootstrap-token-user}}\ncurrent-context: boot\nusers:\n- name: tls-bootstrap-token-user\n  user: {{token: \
         {token}}}\n"
    )
}
