//! Requests reach pods by their own addresses, by Services of every type, by host ports, and through the API server.

use serde_json::{Value, json};
use tests::free_port;

use crate::node::shell;
use crate::pod_servers::{HERE, Network, Protocol, Stage, first_word};

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// The cluster IP of a Service with a port.
fn cluster_ip(service: &Value, port: u16) -> String {
    format!("{}:{port}", service["spec"]["clusterIP"].as_str().unwrap())
}

/// The address of the node on the network of its pods: the first one of the range.
fn gateway(pod_ip: &str) -> String {
    format!("{}.1", pod_ip.rsplit_once('.').unwrap().0)
}

/// An EndpointSlice of a Service with one endpoint.
fn slice(service: &str, name: &str, address: &str, port: u16) -> Value {
    json!({"metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}}, "addressType": "IPv4",
        "endpoints": [{"addresses": [address]}], "ports": [{"name": "web", "port": port, "protocol": "TCP"}]})
}

/// Waits until `nslookup` in the client pod prints this text.
async fn finds(stage: &Stage, name: &str, expected: &str) {
    let client = stage.node.ready("client").await.container_id("main").to_owned();
    let look = async || {
        let (shown, _) = stage.node.world.engine.exec(&client, &["nslookup", name]).await;
        if shown.contains(expected) { Ok(()) } else { Err(shown) }
    };
    stage.node.world.wait_for(&format!("{name} to lead to {expected}"), look).await;
}

#[tokio::test]
async fn pods_and_their_node_reach_pods_by_http_and_udp() {
    let stage = Stage::new("reach").await;
    for name in ["one", "two"] {
        let to = format!("{}:8080", stage.serve(name, &[8080]).await);
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            stage.answers(protocol, &to, &[name]).await;
            let answer = Network::of_the_node().send_request(protocol, &to).unwrap();
            assert_eq!(first_word(&answer), name);
        }
    }
    // The hosts file has the own name of a pod.
    let pod = stage.node.ready("client").await;
    let hosts = stage.node.exec("client", "main", &["cat", "/etc/hosts"]).await;
    let own = format!("{}\tfirst.own.default.svc.cluster.local\tfirst\n", pod.ip());
    assert!(hosts.contains(&own), "{hosts}");
}

#[tokio::test]
async fn services_lead_to_the_ports_of_their_pods() {
    let stage = Stage::new("ports").await;
    let cluster = &stage.node.cluster;
    let ports = json!([{"name": "first", "port": 80, "targetPort": 8080},
        {"name": "second", "port": 81, "targetPort": "port-8081"},
        {"name": "udp", "port": 80, "targetPort": 8080, "protocol": "UDP"}]);
    let service = stage.service("shop", json!({"ports": ports})).await;
    let (first, second) = (cluster_ip(&service, 80), cluster_ip(&service, 81));
    stage.refuses(&first).await;
    let one = stage.serve("one", &[8080, 8081]).await;
    let endpoints = |expected: Vec<String>| {
        move |endpoints: &Value| {
            let subsets = endpoints["subsets"].as_array().cloned().unwrap_or_default();
            let of = |subset: &Value| subset["addresses"].as_array().cloned().unwrap_or_default();
            let mut ips: Vec<String> = subsets
                .iter()
                .flat_map(of)
                .map(|address| address["ip"].as_str().unwrap().to_owned())
                .collect();
            ips.sort();
            ips.dedup();
            ips == expected
        }
    };
    let path = format!("{HERE}/endpoints/shop");
    cluster.until(&path, endpoints(vec![one.clone()])).await;
    stage.answers(Protocol::Tcp, &first, &["one"]).await;
    let two = stage.serve("two", &[8080, 8081]).await;
    let mut both = vec![one, two.clone()];
    both.sort();
    cluster.until(&path, endpoints(both)).await;
    for (protocol, to) in [(Protocol::Tcp, &first), (Protocol::Tcp, &second), (Protocol::Udp, &first)] {
        stage.answers(protocol, to, &["one", "two"]).await;
    }
    let slices =
        cluster.get(&format!("{SLICES}?labelSelector=kubernetes.io/service-name%3Dshop")).await.is(200);
    let endpoint = &slices["items"][0]["endpoints"][0];
    assert_eq!(
        (&endpoint["nodeName"], &endpoint["targetRef"]["kind"]),
        (&json!(stage.node.world.node), &json!("Pod"))
    );
    cluster.delete(&format!("{HERE}/pods/one")).await.is(200);
    cluster.until(&path, endpoints(vec![two])).await;
    stage.answers(Protocol::Udp, &first, &["two"]).await;
    cluster.delete(&format!("{HERE}/pods/two")).await.is(200);
    cluster.until(&path, endpoints(vec![])).await;
    stage.refuses(&second).await;
}

#[tokio::test]
async fn services_work_after_a_change_of_their_type() {
    let stage = Stage::new("types").await;
    let cluster = &stage.node.cluster;
    let gateway = gateway(&stage.serve("one", &[8080]).await);
    let ports = json!([{"name": "web", "port": 80, "targetPort": 8080}]);
    let path = |name: &str| format!("{HERE}/services/{name}");
    for name in ["away", "far"] {
        let alias = json!({"type": "ExternalName", "externalName": "kubernetes.default.svc.cluster.local"});
        stage.service(name, alias).await;
    }
    // From an alias to a cluster IP, and to a port of the node.
    let spec = json!({"type": "ClusterIP", "externalName": null, "ports": ports});
    let changed = cluster.patch(&path("away"), &json!({"spec": spec})).await.is(200);
    stage.answers(Protocol::Tcp, &cluster_ip(&changed, 80), &["one"]).await;
    let spec = json!({"type": "NodePort", "externalName": null, "ports": ports});
    let changed = cluster.patch(&path("far"), &json!({"spec": spec})).await.is(200);
    let number = &changed["spec"]["ports"][0]["nodePort"];
    for to in [cluster_ip(&changed, 80), format!("{gateway}:{number}")] {
        stage.answers(Protocol::Tcp, &to, &["one"]).await;
    }
    // And back to an alias.
    for name in ["away", "far"] {
        let changed = cluster
            .update(&path(name), |service| {
                let spec = service["spec"].as_object_mut().unwrap();
                spec.insert("type".to_owned(), json!("ExternalName"));
                spec.insert("externalName".to_owned(), json!("kubernetes.default.svc.cluster.local"));
                spec.remove("clusterIP");
                spec.remove("clusterIPs");
                spec["ports"][0].as_object_mut().unwrap().remove("nodePort");
            })
            .await;
        assert_eq!(changed["spec"]["clusterIP"].as_str().unwrap_or_default(), "", "{changed}");
        finds(&stage, &format!("{name}.default.svc.cluster.local"), "kubernetes.default.svc.cluster.local")
            .await;
    }
    stage.refuses(&format!("{gateway}:{number}")).await;
}

#[tokio::test]
async fn session_affinity_can_be_switched_on_and_off() {
    let stage = Stage::new("affinity").await;
    let gateway = gateway(&stage.serve("one", &[8080]).await);
    stage.serve("two", &[8080]).await;
    for kind in ["ClusterIP", "NodePort"] {
        let name = kind.to_lowercase();
        let ports = json!([{"name": "web", "port": 80, "targetPort": 8080}]);
        let spec = json!({"type": kind, "sessionAffinity": "ClientIP", "ports": ports});
        let service = stage.service(&name, spec).await;
        let to = match service["spec"]["ports"][0]["nodePort"].as_u64() {
            Some(number) => format!("{gateway}:{number}"),
            None => cluster_ip(&service, 80),
        };
        let path = format!("{HERE}/services/{name}");
        for affinity in ["ClientIP", "None", "ClientIP"] {
            let spec = json!({"spec": {"sessionAffinity": affinity, "sessionAffinityConfig": null}});
            stage.node.cluster.patch(&path, &spec).await.is(200);
            if affinity == "None" {
                stage.answers(Protocol::Tcp, &to, &["one", "two"]).await;
                continue;
            }
            let look = async || {
                let mut names = Vec::new();
                for _ in 0..20 {
                    names.push(first_word(&stage.client.send_request(Protocol::Tcp, &to)?));
                }
                names.dedup();
                if names.len() == 1 { Ok(()) } else { Err(format!("{names:?}")) }
            };
            stage.node.world.wait_for(&format!("one pod to answer at {to}"), look).await;
        }
    }
}

#[tokio::test]
async fn endpoint_slices_of_users_lead_to_their_endpoints() {
    let stage = Stage::new("slices").await;
    let one = stage.serve("one", &[8080]).await;
    let two = stage.serve("two", &[8081]).await;
    let both = stage.serve("both", &[8082, 8083]).await;
    let ports = json!([{"name": "web", "port": 80}]);
    for (name, first, second) in
        [("hosts", (&one, 8080), (&two, 8081)), ("numbers", (&both, 8082), (&both, 8083))]
    {
        let service = stage.service(name, json!({"selector": null, "ports": ports})).await;
        for (end, (address, port)) in [("first", first), ("second", second)] {
            let slice = slice(name, &format!("{name}-{end}"), address, port);
            stage.node.cluster.post(SLICES, &slice).await.is(201);
        }
        let expected: &[&str] = if name == "hosts" { &["one", "two"] } else { &["both"] };
        stage.answers(Protocol::Tcp, &cluster_ip(&service, 80), expected).await;
        // Each of the two is an endpoint: with the other one removed, it answers.
        stage.node.cluster.delete(&format!("{SLICES}/{name}-first")).await.is(200);
        let last = expected.last().copied().unwrap();
        stage.answers(Protocol::Tcp, &cluster_ip(&service, 80), &[last]).await;
        stage.node.cluster.delete(&format!("{SLICES}/{name}-second")).await.is(200);
        stage.refuses(&cluster_ip(&service, 80)).await;
    }
}

#[tokio::test]
async fn pods_share_a_host_port_by_address_and_protocol() {
    let stage = Stage::new("hostports").await;
    let pod = stage.node.ready("client").await;
    let (loopback, gateway) = ("127.0.0.1".to_owned(), gateway(pod.ip()));
    let port = free_port();
    let cases = [
        ("one", &loopback, Protocol::Tcp),
        ("two", &gateway, Protocol::Tcp),
        ("three", &gateway, Protocol::Udp),
    ];
    for (name, address, protocol) in &cases {
        let protocol = if *protocol == Protocol::Udp { "UDP" } else { "TCP" };
        let mut container = shell(tests::manifest::FOREVER);
        container["ports"] = json!([{"containerPort": 8080, "hostPort": port.number, "hostIP": address, "protocol": protocol}]);
        // The scheduler selects the node.
        stage.serve_in(name, json!({"nodeName": "", "containers": [container]}), &[8080]).await;
    }
    for (name, address, protocol) in cases {
        let to = format!("{address}:{}", port.number);
        let look = async || match Network::of_the_node().send_request(protocol, &to) {
            Ok(answer) if first_word(&answer) == name => Ok(()),
            other => Err(format!("{other:?}")),
        };
        stage.node.world.wait_for(&format!("{name} to answer at {protocol:?} {to}"), look).await;
    }
}

#[tokio::test]
async fn the_api_server_proxies_every_method_to_pods_and_services() {
    let stage = Stage::new("proxied").await;
    let cluster = &stage.node.cluster;
    stage.serve("one", &[80, 8080]).await;
    let ports = json!([{"name": "web", "port": 80, "targetPort": 80}, {"name": "more", "port": 81, "targetPort": 8080}]);
    stage.service("shop", json!({"ports": ports})).await;
    let below = format!("{HERE}/services/shop/proxy/");
    cluster
        .until(&format!("{HERE}/endpoints/shop"), |endpoints| endpoints["subsets"][0]["addresses"].is_array())
        .await;
    for place in
        ["pods/one", "pods/http:one:8080", "services/shop:web", "services/http:shop:more", "services/shop:81"]
    {
        let answer = cluster.get(&format!("{HERE}/{place}/proxy/some/path")).await;
        assert_eq!((answer.code, answer.text.as_str()), (200, "one GET /some/path"), "{place}");
    }
    for place in ["pods/one", "services/shop:web"] {
        for method in ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"] {
            let path = format!("{HERE}/{place}/proxy");
            let answer = cluster.send(method, &format!("{path}/some/path/with/{method}"), &[], "").await;
            let expected =
                if method == "HEAD" { "" } else { &*format!("one {method} /some/path/with/{method}") };
            assert_eq!((answer.code, answer.text.as_str()), (200, expected), "{method} {path}");
            // Without a path, reads are redirected to `/`; other methods reach it at once.
            let url = format!("https://127.0.0.1:{}{path}?method={method}", cluster.master.port);
            let kind = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
            let response = cluster.master.client().request(kind, url).send().await.unwrap();
            let is_read = ["GET", "HEAD"].contains(&method);
            assert_eq!(response.url().path().ends_with("/proxy/"), is_read, "{method} {}", response.url());
            let expected = if method == "HEAD" { "" } else { &*format!("one {method} /?method={method}") };
            assert_eq!(
                (response.status().as_u16(), &*response.text().await.unwrap()),
                (200, expected),
                "{method} {path}"
            );
        }
    }
    let answer = cluster.get(&below).await;
    assert_eq!(answer.code, 503, "a Service with several ports needs the name of one: {}", answer.text);
}
