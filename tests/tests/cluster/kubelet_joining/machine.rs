//! A machine whose kubelet joins a cluster, and the state that a user sees.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tests::{Master, World};

/// A machine with a running kubelet that has these flags.
pub async fn started(name: &str, flags: &[&str]) -> World {
    let mut world =
        World::new(name).await.with_flags(["--node-ip", "127.0.0.1"]).with_flags(flags.iter().copied());
    world.launch();
    world
}

/// The join string of a master on this machine.
pub async fn line(master: &Master) -> String {
    let printed = master.verb(&["join-string"]).await;
    let (_, hash) = printed.stdout.trim_end().split_once('#').unwrap();
    format!("https://127.0.0.1:{}#{hash}", master.port)
}

/// A master that machines reach over the loopback interface.
pub async fn master(flags: &[&str]) -> Master {
    let own = ["--advertise-address", "127.0.0.1"];
    let mut master = Master::new().with_flags(own.iter().chain(flags).copied());
    master.start().await;
    master
}

/// Waits until the kubelet's log contains the text, and returns that line.
pub async fn wait_for_log(world: &World, text: &str) -> String {
    let look = async || {
        let log = fs::read_to_string(world.log_path()).unwrap_or_default();
        log.lines().find(|line| line.contains(text)).map(str::to_owned).ok_or(log)
    };
    world.wait_for(&format!("the log to say {text:?}"), look).await
}

/// The path of a node's file with a certificate and key.
pub fn pem(world: &World, name: &str) -> PathBuf {
    world.root_dir().join("pki").join(name)
}

/// Waits until a file exists, asserts that only its owner may read it, and returns its content.
pub async fn file(world: &World, path: &std::path::Path) -> String {
    let look = async || fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let text = world.wait_for(&format!("{}", path.display()), look).await;
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
    text
}

/// Waits until the node has joined: its certificate and kubeconfig exist, and kubectl acts as the node with that kubeconfig.
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

/// The user that the master sees when kubectl uses the node's kubeconfig: `auth whoami`, for kubectl of any version.
pub async fn whoami(world: &World, master: &Master, more: &[&str]) -> Value {
    let review = world.path("whoami.json");
    fs::write(&review, r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}"#).unwrap();
    let create_args = ["create", "--validate=false", "-o", "json", "-f", review.to_str().unwrap()];
    let output_of_review =
        master.kubectl(&world.root_dir().join("kubeconfig"), &[more, &create_args].concat()).await;
    assert_eq!(output_of_review.code, 0, "{output_of_review:?}");
    serde_json::from_str(&output_of_review.stdout).unwrap()
}

/// The CertificateSigningRequests of a signer at the master.
pub async fn requests(master: &Master, signer: &str) -> Vec<Value> {
    let (_, text) = master.get_as_admin("/apis/certificates.k8s.io/v1/certificatesigningrequests").await;
    let list: Value = serde_json::from_str(&text).unwrap();
    let all = list["items"].as_array().cloned().unwrap_or_default();
    all.into_iter().filter(|request| request["spec"]["signerName"] == signer).collect()
}

/// The signer of client certificates of nodes.
pub const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of serving certificates of nodes.
pub const SERVING: &str = "kubernetes.io/kubelet-serving";

/// Runs kubectl as the administrator.
pub async fn admin(master: &Master, arguments: &[&str]) -> String {
    let output = master.kubectl(&master.data_dir().join("admin.kubeconfig"), arguments).await;
    assert_eq!(output.code, 0, "kubectl {arguments:?}: {output:?}\n{}", master.log());
    output.stdout
}

/// Creates a bootstrap token that expires in `hours` hours, and a kubeconfig that uses it.
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
