//! Services and names on a lone node, from manifests and from kubectl.

use std::fs;

use tests::manifest::{container, pod};
use tests::{DEADLINE, World, kubectls, wait_until};

use super::kubectl::Bed;

/// Serves the name of the pod at port 80.
const SERVE: &str =
    "mkdir -p /www; hostname > /www/index.html; trap 'exit 0' TERM; httpd -f -p 80 -h /www & wait";
const READY: &str = "readinessProbe: {tcpSocket: {port: 80}, periodSeconds: 1}";

fn server(name: &str) -> String {
    let pod = pod(name, &format!("containers:\n- {}", container("main", SERVE, READY)));
    pod.replacen(&format!("name: {name}"), &format!("name: {name}\n  labels: {{app: shop}}"), 1)
}

fn service(name: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\n\
         spec: {{selector: {{app: shop}}, ports: [{{port: 8000, targetPort: 80}}]{more}}}\n"
    )
}

/// What a command in the pod `client` prints, or the error.
async fn ask(world: &World, script: &str) -> Result<String, String> {
    let output = world.kubelet(&["exec", &world.pod_name("client"), "--", "sh", "-c", script]).await;
    if output.code == 0 { Ok(output.stdout) } else { Err(format!("{script}: {output:?}")) }
}

/// A script that prints the name of the pod that answers at an address. `wget` of the static busybox cannot be used,
/// because its resolver crashes.
fn request(address: &str, port: u16) -> String {
    format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {address} {port} | grep -o '^[a-z0-9-]*$'")
}

/// A script that resolves the name of a Service and sends a request.
fn fetch(service: &str, port: u16) -> String {
    let resolve = format!(
        "nslookup {service}.default.svc.cluster.local | sed -n 's/^Address: *//p' | grep -v :53 | head -n 1"
    );
    format!("ip=$({resolve}); {}", request("$ip", port))
}

/// Waits until a script in the pod `client` prints a text.
async fn prints(world: &World, script: &str, text: &str) {
    let look = async || {
        let printed = ask(world, script).await?;
        if printed.contains(text) { Ok(()) } else { Err(format!("{script}: {printed}")) }
    };
    wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{seen}\n{}", world.log_tail()));
}

async fn fails(world: &World, script: &str) {
    let look = async || match ask(world, script).await {
        Ok(printed) => Err(format!("{script}: {printed}")),
        Err(_) => Ok(()),
    };
    wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{seen}"));
}

#[tokio::test]
async fn services_of_manifests_work_by_name_and_address() {
    let mut world = World::running("services-files").await;
    let client =
        pod("client", &format!("containers:\n- {}", container("main", tests::manifest::FOREVER, "")));
    world.write("client.yaml", &client);
    let names = service("names", ", clusterIP: None");
    world.write("web.yaml", &format!("{}---\n{}---\n{names}", server("one"), service("shop", "")));
    world.write("two.yaml", &server("two"));
    let (one, _) = (world.wait_ready("one").await, world.wait_ready("two").await);
    world.wait_ready("client").await;
    let (first, second) = (world.pod_name("one"), world.pod_name("two"));
    for server in [&first, &second] {
        prints(&world, &fetch("shop", 8000), server).await;
    }
    prints(&world, "nslookup names.default.svc.cluster.local", one.ip()).await;
    let services = world.get("services").await.unwrap();
    let address = |services: &[serde_json::Value]| {
        let shop = services.iter().find(|one| one["metadata"]["name"] == "shop");
        shop.map(|shop| shop["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned()).unwrap_or_default()
    };
    let before = address(&services);
    assert!(before.starts_with("10."), "{services:?}");
    // Endpoints of a removed pod disappear, and the address stays after a kill.
    world.remove("two.yaml");
    world.wait_gone("two").await;
    let eight = vec![request(&before, 8000); 8].join("; ");
    let only = format!("({eight}) | sort -u | grep -c .");
    prints(&world, &only, "1\n").await;
    world.kill();
    world.start().await;
    prints(&world, &fetch("shop", 8000), &first).await;
    let restarted = async || {
        let now = address(&world.get("services").await?);
        if now == before { Ok(()) } else { Err(format!("{now} in place of {before}")) }
    };
    world.wait_for("the same cluster IP", restarted).await;
    // Without the Service, the name does not exist and the address refuses connections.
    world.write("web.yaml", &server("one"));
    fails(&world, "nslookup shop.default.svc.cluster.local").await;
    fails(&world, &request(&before, 8000)).await;
}

#[tokio::test]
async fn invalid_services_are_reported_and_others_stay() {
    let world = World::running("services-invalid").await;
    let bad = "apiVersion: v1\nkind: Service\nmetadata: {name: bad}\nspec: {selector: {app: shop}, ports: [{port: 99999}]}\n";
    let unfit = service("unfit", ", clusterIP: 192.0.2.1");
    world.write("web.yaml", &format!("{}---\n{bad}---\n{}", server("one"), service("shop", "")));
    world.write("unfit.yaml", &unfit);
    world.wait_ready("one").await;
    let reported = async |reason: &str, texts: &[&str]| {
        let look = async || {
            let events = world.get("events").await?;
            let is_it = |event: &&serde_json::Value| {
                let text = event["message"].as_str().unwrap_or_default();
                event["reason"] == reason && texts.iter().all(|part| text.contains(part))
            };
            if events.iter().any(|event| is_it(&event)) { Ok(()) } else { Err(format!("{events:?}")) }
        };
        world.wait_for(reason, look).await;
    };
    reported("InvalidManifest", &["web.yaml", "spec.ports[0].port"]).await;
    reported("ServiceNotAssigned", &["default/unfit", "192.0.2.1", "10.96.0.0/12"]).await;
    let names = async || {
        let services = world.get("services").await?;
        let names: Vec<_> = services.iter().filter_map(|one| one["metadata"]["name"].as_str()).collect();
        if names == ["shop"] { Ok(()) } else { Err(format!("{names:?}")) }
    };
    world.wait_for("the valid Service", names).await;
}

#[tokio::test]
async fn kubectl_writes_services_to_a_lone_node() {
    let bed = Bed::new("services-kubectl").await;
    let world = &bed.world;
    let client =
        pod("client", &format!("containers:\n- {}", container("main", tests::manifest::FOREVER, "")));
    world.write("client.yaml", &client);
    world.write("one.yaml", &server("one"));
    world.write("shop.yaml", &service("shop", ""));
    world.wait_ready("one").await;
    world.wait_ready("client").await;
    let file = world.path("pushed.yaml");
    fs::write(&file, service("pushed", ", type: NodePort")).unwrap();
    let file = file.display().to_string();
    let one = world.pod_name("one");
    for kubectl in &kubectls() {
        for (arguments, expected) in [
            (&["apply", "-f", &file][..], "service/pushed created"),
            (&["apply", "-f", &file], "service/pushed unchanged"),
            (&["expose", "pod", &one, "--name=exposed", "--port=80"], "service/exposed exposed"),
            (&["get", "services"], "NodePort"),
            (&["get", "service", "pushed", "-o", "jsonpath={.spec.ports[0].nodePort}"], "3"),
            (&["describe", "service", "pushed"], "8000/TCP"),
            (&["get", "endpointslices", "-o", "wide"], "pushed-ipv4-0"),
        ] {
            let printed = bed.admin(kubectl, arguments).await;
            assert!(printed.contains(expected), "1.{} {arguments:?}: {printed}", kubectl.minor);
        }
        prints(world, &fetch("pushed", 8000), "one").await;
        prints(world, &fetch("exposed", 80), "one").await;
        let refused = bed.run(kubectl, &bed.admin, &["delete", "service", "shop"]).await;
        assert!(refused.code != 0 && refused.stderr.contains("shop.yaml"), "{refused:?}");
        let deleted = bed.admin(kubectl, &["delete", "service", "pushed", "exposed"]).await;
        assert!(deleted.contains("deleted"), "{deleted}");
        fails(world, "nslookup pushed.default.svc.cluster.local").await;
    }
}
