//! kubectl against a lone node, with the kubeconfigs that `kubelet kubeconfig` prints.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use tests::manifest::{container, pod};
use tests::{DEADLINE, Kubectl, Output, World, kubectls, output};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;

use super::looking::send_request;

/// Writes a file, serves it at port 8080, and logs a line.
const SERVE: &str = "mkdir -p /www; echo served > /www/f; echo started; trap 'exit 0' TERM; \
                     httpd -f -p 127.0.0.1:8080 -h /www & wait";
const READY: &str = "readinessProbe: {exec: {command: [wget, -q, -O, /dev/null, 'http://127.0.0.1:8080/f']}, periodSeconds: 1}";

/// A node with a running pod, and the kubeconfigs of its users.
pub struct Bed {
    pub world: World,
    pub admin: PathBuf,
    pub viewer: PathBuf,
}

impl Bed {
    pub async fn new(name: &str) -> Self {
        let world = World::running(name).await;
        let settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '1'}\n---\n";
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {b: '2'}\n---\n";
        let web = pod("web", &format!("containers:\n- {}", container("main", SERVE, READY)));
        world.write("web.yaml", &format!("{settings}{secret}{web}"));
        world.wait_ready("web").await;
        let admin = kubeconfig(&world, "admin", &[]).await;
        let viewer = kubeconfig(&world, "viewer", &["--read-only"]).await;
        Self { world, admin, viewer }
    }

    fn command(
        &self,
        kubectl: &Kubectl,
        kubeconfig: &PathBuf,
        arguments: &[&str],
    ) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&kubectl.path);
        // HOME has the discovery cache.
        command.env_clear().env("HOME", self.world.path(&format!("home{}", kubectl.minor)));
        command.env("KUBECONFIG", kubeconfig).env("PATH", "/usr/bin:/bin").args(arguments);
        command.env("KUBE_EDITOR", "sed -i s/editme/edited/");
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    pub async fn run(&self, kubectl: &Kubectl, kubeconfig: &PathBuf, arguments: &[&str]) -> Output {
        output(self.command(kubectl, kubeconfig, arguments), DEADLINE).await.unwrap()
    }

    /// Runs a command that has to succeed. Returns its output.
    pub async fn admin(&self, kubectl: &Kubectl, arguments: &[&str]) -> String {
        let Output { code, stdout, stderr } = self.run(kubectl, &self.admin, arguments).await;
        assert_eq!(code, 0, "1.{} {arguments:?}: {stdout}{stderr}", kubectl.minor);
        stdout
    }
}

async fn kubeconfig(world: &World, name: &str, flags: &[&str]) -> PathBuf {
    let path = world.path(name);
    let printed = world.kubelet(&[&["kubeconfig"], flags].concat()).await;
    assert_eq!((printed.code, printed.stderr.as_str()), (0, ""), "{}", printed.stdout);
    fs::write(&path, printed.stdout).unwrap();
    path
}

#[tokio::test]
async fn kubectl_reads_the_objects_of_a_lone_node() {
    let bed = Bed::new("kubectl-reads").await;
    let web = bed.world.pod_name("web");
    let node = bed.world.node.clone();
    let running = bed.world.wait_ready("web").await;
    let address = running.0["status"]["podIP"].as_str().unwrap();
    for kubectl in &kubectls() {
        for (arguments, expected) in [
            (&["version"][..], "Server Version"),
            (&["get", "pods"], "1/1"),
            (&["get", "pods", "-A", "-o", "wide"], address),
            (&["get", "all"], &web),
            (&["get", "pod", &web, "-o", "yaml"], "phase: Running"),
            (&["get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}"], &node),
            (&["get", "pods", "--field-selector", "status.phase=Running", "-o", "name"], "pod/"),
            (&["describe", "pod", &web], "Started container main"),
            (&["describe", "node", &node], "Non-terminated Pods"),
            (&["get", "nodes"], "Ready"),
            (&["get", "events"], "Started"),
            (&["get", "configmap", "settings", "-o", "jsonpath={.data.a}"], "1"),
            (&["get", "secret", "key", "-o", "jsonpath={.data.b}"], "Mg=="),
            (&["top", "pod", &web], "Mi"),
            (&["top", "pod", "-A", "--containers"], "main"),
            (&["top", "node"], "%"),
            (&["api-resources"], "PodMetrics"),
            (&["explain", "pods.spec.containers"], "Entrypoint array"),
            (&["wait", "--for=condition=Ready", "pod", &web, "--timeout=30s"], "condition met"),
            (&["logs", &web], "started"),
            (&["logs", &web, "--tail=1", "--timestamps"], "Z started"),
            (&["exec", &web, "--", "cat", "/www/f"], "served"),
        ] {
            let printed = bed.admin(kubectl, arguments).await;
            assert!(printed.contains(expected), "1.{} {arguments:?}: {printed}", kubectl.minor);
        }
        let target = bed.world.path(&format!("copy{}", kubectl.minor));
        bed.admin(kubectl, &["cp", &format!("{web}:/www/f"), &target.display().to_string()]).await;
        assert_eq!(fs::read_to_string(&target).unwrap(), "served\n");
        let Output { code, .. } =
            bed.run(kubectl, &bed.admin, &["exec", &web, "--", "sh", "-c", "exit 7"]).await;
        assert_eq!(code, 7, "1.{}", kubectl.minor);
    }
}

#[tokio::test]
async fn kubectl_forwards_ports_and_watches_a_lone_node() {
    let bed = Bed::new("kubectl-streams").await;
    let web = bed.world.pod_name("web");
    for kubectl in &kubectls() {
        let arguments = ["port-forward", &web, "0:8080"];
        let mut command = bed.command(kubectl, &bed.admin, &arguments);
        let mut forward = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(forward.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap().unwrap();
        let port: u16 = line.split(':').nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let answer = send_request(stream, "/f").await;
        assert!(answer.ends_with("\r\n\r\nserved\n"), "1.{}: {answer}", kubectl.minor);
        forward.kill().await.unwrap();
    }
    let kubectl = kubectls().pop().unwrap();
    let mut watch = bed.command(&kubectl, &bed.viewer, &["get", "pods", "-w", "-o", "name"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next =
        async || tokio::time::timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap().unwrap();
    assert_eq!(next().await, format!("pod/{web}"));
    let other = pod("other", &format!("containers:\n- {}", container("main", "sleep 100000", "")));
    bed.world.write("other.yaml", &other);
    let other = format!("pod/{}", bed.world.pod_name("other"));
    while next().await != other {}
    watch.kill().await.unwrap();
}

#[tokio::test]
async fn read_only_users_of_a_lone_node_read_no_secret_and_change_nothing() {
    let bed = Bed::new("kubectl-viewer").await;
    let web = bed.world.pod_name("web");
    for kubectl in &kubectls() {
        for arguments in [
            &["get", "pods"][..],
            &["describe", "pod", &web],
            &["get", "nodes"],
            &["get", "configmaps"],
            &["logs", &web],
            &["get", "--raw", "/metrics"],
            &["top", "pod"],
        ] {
            let Output { code, stdout, stderr } = bed.run(kubectl, &bed.viewer, arguments).await;
            assert_eq!(code, 0, "1.{} {arguments:?}: {stdout}{stderr}", kubectl.minor);
        }
        for (arguments, denied) in [
            (&["get", "secrets"][..], "list resource \"secrets\""),
            (&["get", "secret", "key"], "get resource \"secrets\""),
            (&["get", "--raw", "/api/v1/namespaces/default/secrets/key"], "get resource \"secrets\""),
            (&["delete", "pod", &web], "delete resource \"pods\""),
            (&["label", "pod", &web, "a=b"], "patch resource \"pods\""),
            (&["create", "configmap", "more"], "create resource \"configmaps\""),
        ] {
            let Output { code, stdout, stderr } = bed.run(kubectl, &bed.viewer, arguments).await;
            let expected = format!("User \"node-viewer\" cannot {denied}");
            assert!(
                code != 0 && stderr.contains(&expected),
                "1.{} {arguments:?}: {stdout}{stderr}",
                kubectl.minor
            );
        }
        // Some versions of kubectl do not print the reason for a rejected upgrade.
        for arguments in
            [&["exec", &web, "--", "touch", "/www/changed"][..], &["port-forward", &web, "0:8080"]]
        {
            let Output { code, stdout, stderr } = bed.run(kubectl, &bed.viewer, arguments).await;
            assert!(
                code != 0 && stderr.contains("orbidden"),
                "1.{} {arguments:?}: {stdout}{stderr}",
                kubectl.minor
            );
        }
        let files = bed.admin(kubectl, &["exec", &web, "--", "ls", "/www"]).await;
        assert_eq!(files, "f\n", "1.{}", kubectl.minor);
    }
}

#[tokio::test]
async fn objects_of_files_cannot_be_changed_through_the_api() {
    let bed = Bed::new("kubectl-writes").await;
    let web = bed.world.pod_name("web");
    for kubectl in &kubectls() {
        let Output { code, stderr, .. } = bed.run(kubectl, &bed.admin, &["delete", "pod", &web]).await;
        assert!(code != 0 && stderr.contains("--pod-manifest-path"), "1.{}: {stderr}", kubectl.minor);
    }
    // `--output` creates a file that only its owner can read.
    let path = bed.world.path("private");
    let text = path.display().to_string();
    assert_eq!(bed.world.kubelet(&["kubeconfig", "--output", &text]).await.code, 0);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let again = bed.world.kubelet(&["kubeconfig", "--output", &text]).await;
    assert!(again.code == 1 && again.stderr.contains("File exists"), "{again:?}");
}
