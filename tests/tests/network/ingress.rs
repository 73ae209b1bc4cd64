//! The Ingress controller of a node, with a master and pods on two nodes.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tests::certificates::{GOOD, Signer};
use tests::{DEADLINE, IMAGE, Machine, tls_config, wait_until};

use crate::pod_network_nodes::cluster::Cluster;

/// The ports of the Ingress controller in this test.
const HTTP: u16 = 8081;
const HTTPS: u16 = 8443;
/// The label of nodes that may read the TLS Secrets of Ingresses.
const LABEL: &str = "node-restriction.kubernetes.io/ingress=true";

/// A pod that answers `/who` and `/a/b` with its name, and `/cgi-bin/slow` after five seconds. `app` selects it.
fn pod(name: &str, app: &str, machine: &Machine) -> Value {
    let script = "mkdir -p /tmp/www/cgi-bin /tmp/www/a; cd /tmp/www; echo $APP >who; echo $APP >a/b\n\
        printf '%s\\n' '#!/bin/sh' 'echo Content-Type: text/plain' 'echo' 'echo begin' 'echo yes >/tmp/www/begun' 'sleep 5' 'echo end' >cgi-bin/slow\n\
        chmod +x cgi-bin/slow; trap 'exit 0' TERM; httpd -f -p 80 -h /tmp/www & wait";
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": machine.node.pod_name(name), "labels": {"app": app}},
        "spec": {"nodeName": machine.node.node, "terminationGracePeriodSeconds": 1, "containers": [{
            "name": "main", "image": IMAGE, "command": ["sh", "-c", script],
            "env": [{"name": "APP", "value": app}], "ports": [{"containerPort": 80, "name": "http"}],
        }]},
    })
}

/// A Service of the pods of this app.
fn service(app: &str) -> Value {
    let port = json!({"name": "web", "port": 8000, "targetPort": "http"});
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": app}, "spec": {"selector": {"app": app}, "ports": [port]}})
}

fn path(path: &str, path_type: &str, app: &str) -> Value {
    json!({"path": path, "pathType": path_type, "backend": backend(app)})
}

fn backend(app: &str) -> Value {
    json!({"service": {"name": app, "port": {"name": "web"}}})
}

/// An Ingress of the class `coracle` whose host has these paths.
fn ingress(name: &str, host: &str, paths: &[Value]) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name},
        "spec": {
            "ingressClassName": "coracle", "rules": [{"host": host, "http": {"paths": paths}}],
            "tls": [{"hosts": [host], "secretName": "cert"}],
        },
    })
}

/// Sends a request for a host over HTTP, and reads the whole answer. Blocks.
fn send_request(address: &str, host: &str, path: &str) -> Result<String, String> {
    let send = || {
        let to = SocketAddr::new(address.parse().unwrap(), HTTP);
        let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(2))?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    send().map_err(|error| error.to_string())
}

/// The code and body of an answer over HTTP.
fn get(address: &str, host: &str, path: &str) -> Result<(u16, String), String> {
    let answer = send_request(address, host, path)?;
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| answer.clone())?;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    Ok((code, body.to_owned()))
}

/// Waits until a request has this code and a body that contains this text.
async fn answers(machine: &Machine, host: &str, path: &str, code: u16, text: &str) {
    let look = async || match get(&machine.address_of(4), host, path) {
        Ok((seen, body)) if seen == code && body.contains(text) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    let waited = wait_until(DEADLINE, look).await;
    waited.unwrap_or_else(|seen| {
        panic!("{host}{path} should be {code} {text}, but is {seen}\n{}", machine.node.log_tail())
    });
}

#[tokio::test]
async fn a_node_serves_ingresses_by_host_and_path() {
    let mut cluster: Cluster<2> = Cluster::of([1, 1]).await;
    let (http, https) = (HTTP.to_string(), HTTPS.to_string());
    let flags = ["--ingress", "--ingress-http-port", &http, "--ingress-https-port", &https];
    cluster.machines[0].node.stop().await;
    cluster.machines[0].join(&cluster.master, &flags).await;
    let [edge, other] = &cluster.machines;
    let refused = TcpStream::connect((other.address_of(4).as_str(), HTTP));
    assert!(refused.is_err(), "a node without --ingress serves none");

    let authority = Signer::stranger();
    let pair = authority.signs("/CN=shop", "serverAuth", "DNS:shop.example", GOOD);
    let encode = |text: &str| BASE64_STANDARD.encode(text);
    let shop = [
        path("/", "Prefix", "near"),
        path("/who", "Exact", "far"),
        path("/a", "Prefix", "far"),
        path("/none", "Prefix", "none"),
    ];
    let class = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "coracle"}, "spec": {"controller": "coracle/ingress"}});
    let fallback = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "fallback"},
        "spec": {"ingressClassName": "coracle", "defaultBackend": backend("near")},
    });
    let objects = [
        pod("one", "near", edge),
        pod("two", "far", other),
        service("near"),
        service("far"),
        service("none"),
        class,
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cert"}, "type": "kubernetes.io/tls",
            "data": {"tls.crt": encode(&pair.certificate), "tls.key": encode(&pair.key)}}),
        ingress("shop", "shop.example", &shop),
    ];
    cluster.kubectl_with("apply", &objects).await;
    // HTTP by host and path, to pods of both nodes.
    answers(edge, "shop.example", "/who", 200, "far").await;
    answers(edge, "shop.example", "/a/b", 200, "far").await;
    answers(edge, "shop.example", "/none", 503, "").await;
    answers(edge, "unknown.example", "/who", 404, "").await;
    cluster.kubectl_with("apply", &[fallback]).await;
    answers(edge, "unknown.example", "/who", 200, "near").await;
    cluster.kubectl(&["delete", "ingress", "fallback"]).await;
    answers(edge, "unknown.example", "/who", 404, "").await;

    // HTTPS with the Secret, which the node reads once it has the label. Then kubectl also shows its address.
    let address = edge.address_of(4);
    cluster.kubectl(&["label", "node", &edge.node.node, LABEL]).await;
    let to = SocketAddr::new(address.parse().unwrap(), HTTPS);
    let config = tls_config(&pair.certificate, None).unwrap();
    let look = async || {
        let builder = reqwest::Client::builder().tls_backend_preconfigured(config.clone());
        let client =
            builder.resolve("shop.example", to).no_proxy().build().map_err(|error| error.to_string())?;
        let answer = client.get(format!("https://shop.example:{HTTPS}/who")).send().await;
        let body =
            answer.map_err(|error| format!("{error:?}"))?.text().await.map_err(|error| error.to_string())?;
        if body.contains("far") { Ok(()) } else { Err(body) }
    };
    let waited = wait_until(DEADLINE, look).await;
    waited.unwrap_or_else(|seen| panic!("HTTPS: {seen}\n{}", edge.node.log_tail()));
    let look = async || match cluster.kubectl(&["get", "ingress", "shop"]).await {
        shown if shown.contains(&address) => Ok(()),
        shown => Err(shown),
    };
    wait_until(DEADLINE, look).await.unwrap();

    // kubectl creates and describes Ingresses.
    let rule = "--rule=made.example/who=far:web";
    cluster.kubectl(&["create", "ingress", "made", "--class=coracle", rule]).await;
    answers(edge, "made.example", "/who", 200, "far").await;
    let described = cluster.kubectl(&["describe", "ingress", "made"]).await;
    assert!(described.contains("made.example") && described.contains("far:web"), "{described}");

    // A change ends no request that runs.
    let at = address.clone();
    let running = std::thread::spawn(move || get(&at, "shop.example", "/cgi-bin/slow"));
    answers(edge, "shop.example", "/begun", 200, "yes").await;
    cluster.kubectl_with("apply", &[ingress("shop", "shop.example", &[path("/who", "Exact", "near")])]).await;
    let (code, body) = running.join().unwrap().unwrap();
    assert!(code == 200 && body.contains("end"), "{code} {body}");
    answers(edge, "shop.example", "/who", 200, "near").await;
    answers(edge, "shop.example", "/a/b", 404, "").await;
    cluster.kubectl(&["delete", "ingress", "shop"]).await;
    answers(edge, "shop.example", "/who", 404, "").await;
}
