//! The DNS server of a node: pods resolve names of Services, of pods and of the world outside, also without a master.

use std::fs;
use std::net::UdpSocket;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::Pod;
use tests::manifest::FOREVER;

use crate::node::{Case, Node, shell};

const HERE: &str = "/api/v1/namespaces/default";
/// A name that only the upstream of this test knows, with its address.
const OUTSIDE: (&str, &str) = ("outside.example", "192.0.2.77");
/// The number of endpoints of the Service `large`. Their records do not fit into a UDP message.
const LARGE: u8 = 120;

/// A node with a pod that resolves names.
struct Stage {
    node: Node,
    /// The id of the pod's container.
    client: String,
    /// The folder of the resolv.conf, which the kubelet reads again and again.
    _folder: TempDir,
}

/// Answers each query with the address of [`OUTSIDE`] at a loopback address of this test, until the test ends. Returns
/// that address.
fn upstream() -> String {
    let number = std::process::id();
    let address = format!("127.{}.{}.53", 60 + number / 250 % 60, 1 + number % 250);
    let socket = UdpSocket::bind((address.as_str(), 53)).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        loop {
            let (_, client) = socket.recv_from(&mut buffer).unwrap();
            let name = buffer[12..].iter().position(|byte| *byte == 0).unwrap() + 13;
            let is_address = buffer[name..name + 2] == [0, 1];
            let mut response = buffer[..name + 4].to_vec();
            response[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
            if is_address {
                // A pointer to the name, type A, class IN, 60 seconds, 4 bytes.
                response.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 77]);
            }
            let _ = socket.send_to(&response, client);
        }
    });
    address
}

impl Stage {
    async fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let resolv_conf = folder.path().join("resolv.conf");
        fs::write(&resolv_conf, format!("nameserver {}\nsearch host.example\n", upstream())).unwrap();
        let flags = ["--pod-network", "native", "--resolv-conf", resolv_conf.to_str().unwrap()];
        let node = Node::with_flags(name, "--scheduler=true", &flags).await;
        let stage = Self { node, client: String::new(), _folder: folder };
        stage.make_services().await;
        let spec = json!({"hostname": "first", "subdomain": "own", "containers": [shell(FOREVER)]});
        stage.node.make("client", json!({"metadata": {"labels": {"app": "own"}}, "spec": spec})).await;
        let client = stage.node.ready("client").await.container_id("main").to_owned();
        Self { client, ..stage }
    }

    async fn make_services(&self) {
        let http = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
        for (name, spec) in [
            ("pets", json!({"clusterIP": "None", "ports": http})),
            ("large", json!({"clusterIP": "None", "ports": http})),
            ("own", json!({"clusterIP": "None", "ports": http, "selector": {"app": "own"}})),
            ("away", json!({"type": "ExternalName", "externalName": OUTSIDE.0})),
        ] {
            let service = json!({"metadata": {"name": name}, "spec": spec});
            self.node.cluster.post(&format!("{HERE}/services"), &service).await.is(201);
        }
        let endpoint = |hostname: Option<&str>, ip: String| json!({"addresses": [ip], "hostname": hostname});
        let pets = ["tom", "jerry"].iter().zip(1..);
        let pets = pets.map(|(name, ip)| endpoint(Some(name), format!("198.51.100.{ip}"))).collect();
        let large = (1..=LARGE).map(|ip| endpoint(None, format!("203.0.113.{ip}"))).collect();
        for (service, endpoints) in [("pets", pets), ("large", large)] {
            let endpoints: Vec<Value> = endpoints;
            let labels = json!({"kubernetes.io/service-name": service});
            let slice = json!({"metadata": {"name": format!("{service}-1"), "labels": labels}, "addressType": "IPv4",
                "endpoints": endpoints, "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]});
            let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
            self.node.cluster.post(path, &slice).await.is(201);
        }
    }

    /// Waits until `nslookup` in the pod prints all these texts.
    async fn finds(&self, arguments: &[&str], expected: &[&str]) {
        let command = [&["nslookup"], arguments].concat();
        let look = async || {
            let (shown, code) = self.node.world.engine.exec(&self.client, &command).await;
            // The first lines name the server.
            let answer = shown.split_once("\n\n").map_or("", |(_, answer)| answer);
            let is_shown = expected.iter().all(|text| answer.contains(text));
            if is_shown { Ok(()) } else { Err(format!("{code}: {shown}")) }
        };
        self.node.world.wait_for(&format!("{command:?} to print {expected:?}"), look).await;
    }

    /// The names that have to work whether the master runs or not.
    async fn finds_all(&self) {
        self.finds(&["kubernetes"], &["10.96.0.1"]).await;
        self.finds(&["kubernetes.default.svc.cluster.local"], &["10.96.0.1"]).await;
        self.finds(&["tom.pets.default.svc.cluster.local"], &["198.51.100.1"]).await;
        self.finds(&[OUTSIDE.0], &[OUTSIDE.1]).await;
    }

    /// The addresses that the resolver of glibc finds with the configuration of the pod.
    async fn addresses(&self, name: &str) -> Vec<String> {
        let (text, _) = self.node.world.engine.exec(&self.client, &["cat", "/etc/resolv.conf"]).await;
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        let line = format!(
            "mount --bind {} /etc/resolv.conf && exec getent ahostsv4 {name}",
            file.path().to_str().unwrap()
        );
        let output = Command::new("unshare").args(["--mount", "sh", "-c", &line]).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        let is_stream = |line: &&str| line.contains("STREAM");
        shown.lines().filter(is_stream).map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }
}

#[tokio::test]
async fn pods_resolve_names_of_services_and_pods_and_of_the_world_outside() {
    let stage = Stage::new("names").await;
    let resolv_conf = &["cat", "/etc/resolv.conf"];
    let (text, _) = stage.node.world.engine.exec(&stage.client, resolv_conf).await;
    let pod = stage.node.ready("client").await;
    let gateway = format!("{}.1", pod.ip().rsplit_once('.').unwrap().0);
    let expected = format!(
        "search default.svc.cluster.local svc.cluster.local cluster.local host.example\nnameserver {gateway}\noptions \
         ndots:5\n"
    );
    assert_eq!(text, expected);
    stage.finds_all().await;
    let (pets, srv) = ("pets.default.svc.cluster.local", "_http._tcp.pets.default.svc.cluster.local");
    stage.finds(&["pets.default.svc.cluster.local"], &["198.51.100.1", "198.51.100.2"]).await;
    let targets = [format!("8080 tom.{pets}"), format!("8080 jerry.{pets}")];
    stage.finds(&["-type=srv", srv], &targets.each_ref().map(String::as_str)).await;
    stage.finds(&["10.96.0.1"], &["kubernetes.default.svc.cluster.local"]).await;
    stage.finds(&["198.51.100.2"], &[&format!("jerry.{pets}")]).await;
    stage.finds(&["away.default.svc.cluster.local"], &[OUTSIDE.0, OUTSIDE.1]).await;
    stage.finds(&["-type=txt", "dns-version.cluster.local"], &["1.1.0"]).await;
    stage.finds(&["none.default.svc.cluster.local"], &["NXDOMAIN"]).await;
    // The pod itself, by its hostname and subdomain and by its address.
    stage.finds(&["first.own.default.svc.cluster.local"], &[pod.ip()]).await;
    let by_address = format!("{}.default.pod.cluster.local", pod.ip().replace('.', "-"));
    stage.finds(&[&by_address], &[pod.ip()]).await;
    // The resolver of glibc, with search domains, and with TCP for the large Service.
    assert_eq!(stage.addresses("kubernetes.default").await, ["10.96.0.1"]);
    assert_eq!(stage.addresses(OUTSIDE.0).await, [OUTSIDE.1]);
    // Without the dot, glibc asks the upstream server too, which answers every name.
    assert_eq!(stage.addresses("none.default.svc.cluster.local.").await, [""; 0]);
    assert_eq!(stage.addresses("large").await.len(), usize::from(LARGE));
}

#[tokio::test]
async fn names_follow_changes_of_services() {
    let stage = Stage::new("changes").await;
    let services = |namespace: &str| format!("/api/v1/namespaces/{namespace}/services");
    let cluster = &stage.node.cluster;
    let port = json!([{"name": "http", "port": 80}]);
    // A Service of another namespace, by its short name too, and its deletion.
    let far = json!({"metadata": {"name": "far"}, "spec": {"ports": port}});
    let far = cluster.post(&services("kube-system"), &far).await.is(201);
    let address = far["spec"]["clusterIP"].as_str().unwrap();
    let name = "far.kube-system.svc.cluster.local";
    stage.finds(&[name], &[address]).await;
    assert_eq!(stage.addresses("far.kube-system").await, [address]);
    stage.finds(&["-type=srv", &format!("_http._tcp.{name}")], &[&format!("80 {name}")]).await;
    stage.finds(&["-type=srv", name], &[&format!("80 {name}")]).await;
    cluster.delete(&format!("{}/far", services("kube-system"))).await.is(200);
    stage.finds(&[name], &["NXDOMAIN"]).await;
    // An alias with another target, and as a Service with a cluster IP.
    let (away, name) = (format!("{}/away", services("default")), "away.default.svc.cluster.local");
    stage.finds(&[name], &[OUTSIDE.0]).await;
    cluster.patch(&away, &json!({"spec": {"externalName": "other.example"}})).await.is(200);
    stage.finds(&[name], &["other.example"]).await;
    let spec = json!({"type": "ClusterIP", "externalName": null, "ports": port});
    let changed = cluster.patch(&away, &json!({"spec": spec})).await.is(200);
    stage.finds(&[name], &[changed["spec"]["clusterIP"].as_str().unwrap()]).await;
    // A pod that never becomes Ready.
    for (name, publishes) in [("strict", false), ("lenient", true)] {
        let spec =
            json!({"clusterIP": "None", "selector": {"app": "late"}, "publishNotReadyAddresses": publishes});
        let service = json!({"metadata": {"name": name}, "spec": spec});
        cluster.post(&services("default"), &service).await.is(201);
    }
    let mut container = shell(FOREVER);
    container["readinessProbe"] = json!({"exec": {"command": ["false"]}});
    let late = json!({"metadata": {"labels": {"app": "late"}}, "spec": {"containers": [container]}});
    stage.node.make("late", late).await;
    let late = stage.node.until("late", "to run", |pod: &Pod| pod.phase() == "Running").await;
    stage.finds(&["lenient.default.svc.cluster.local"], &[late.ip()]).await;
    stage.finds(&["strict.default.svc.cluster.local"], &["NXDOMAIN"]).await;
}

#[tokio::test]
async fn names_are_resolved_while_the_master_is_away_and_after_a_restart_without_it() {
    let mut stage = Stage::new("away").await;
    stage.finds_all().await;
    // The kubelet writes the Services to disk a few seconds after a change.
    let stored = stage.node.world.root_dir().join("cluster/services.json");
    let has_all = async || match fs::read_to_string(&stored).unwrap_or_default() {
        text if text.contains("198.51.100.1") => Ok(()),
        text => Err(text),
    };
    stage.node.world.wait_for("the Services on disk", has_all).await;
    stage.node.cluster.master.kill();
    stage.finds_all().await;
    stage.node.world.kill();
    stage.node.world.start().await;
    stage.finds_all().await;
}

#[tokio::test]
async fn a_pod_on_the_host_network_uses_the_dns_server_if_it_says_so() {
    let stage = Stage::new("hostnet").await;
    let script = "cat /etc/resolv.conf; nslookup kubernetes.default.svc.cluster.local";
    let spec =
        json!({"hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet", "containers": [shell(script)]});
    stage.node.make("host", json!({"spec": spec})).await;
    stage.node.until("host", "to succeed", |pod: &Pod| pod.phase() == "Succeeded").await;
    let log = stage.node.log("host", "main").await;
    assert!(log.contains("nameserver 10.") && log.contains("10.96.0.1"), "{log}");
}

#[tokio::test]
async fn dns_policies_select_the_name_servers_of_a_pod() {
    let folder = tempfile::tempdir().unwrap();
    let resolv_conf = folder.path().join("resolv.conf");
    // A pod cannot reach the loopback of the host.
    fs::write(&resolv_conf, "nameserver 127.0.0.1\nnameserver 192.0.2.53\nsearch host.example\n").unwrap();
    let resolv_conf = resolv_conf.to_str().unwrap();
    let flags = ["--pod-network", "native", "--cluster-dns", "192.0.2.10", "--resolv-conf", resolv_conf];
    let node = Node::with_flags("policies", "--scheduler=false", &flags).await;
    let case = |name: &str, mut spec: Value, prints: &str| {
        spec["containers"] = json!([shell("cat /etc/resolv.conf")]);
        Case { name: name.to_owned(), pod: json!({"spec": spec}), prints: prints.to_owned() }
    };
    let own = json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.99"], "searches": ["own.example"]}});
    node.print(vec![
        case("cluster", json!({}), "search host.example\nnameserver 192.0.2.10\noptions ndots:5"),
        case("default", json!({"dnsPolicy": "Default"}), "search host.example\nnameserver 192.0.2.53"),
        case("none", own, "search own.example\nnameserver 192.0.2.99"),
    ])
    .await;
}
