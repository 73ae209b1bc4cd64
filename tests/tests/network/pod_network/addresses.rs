//! Pod addresses: their assignment, connectivity, and that none is leaked.

use tests::manifest::{FOREVER, container, pod, sleeper};
use tests::network::{bridge, cables, records, routes};
use tests::{World, free_port};

use crate::pod_network::machine::{gateway, get, has_no_cables, node};

/// A web server that answers with its own name.
fn server(name: &str, more: &str) -> String {
    let script = format!("mkdir /tmp/www; hostname >/tmp/www/index.html; httpd -p 80 -h /tmp/www; {FOREVER}");
    pod(name, &format!("{more}\ncontainers:\n- {}", container("main", &script, "")))
}

async fn fetch(world: &World, from: &str, ip: &str) -> Result<String, String> {
    let from = world.container(from, "main").await?;
    let (answer, code) =
        world.engine.exec(&from.id, &["timeout", "3", "wget", "-qO-", &format!("http://{ip}/")]).await;
    if code == 0 { Ok(answer.trim().to_owned()) } else { Err(format!("{code}: {answer}")) }
}

#[tokio::test]
async fn pods_and_node_connect_and_hosts_files_contain_pod_names() {
    let world = node("net").await;
    let more = "hostAliases: [{ip: 192.0.2.7, hostnames: [db.example]}]\ndnsPolicy: None\ndnsConfig: {nameservers: [192.0.2.53], searches: [x.example]}";
    world.write("a.yaml", &server("a", more));
    world.write("b.yaml", &server("b", ""));
    let (a, b) = (world.wait_ready("a").await, world.wait_ready("b").await);
    assert_ne!(a.ip(), b.ip());
    for (from, to) in [("a", &b), ("b", &a), ("a", &a)] {
        let name = world.pod_name(if to.ip() == a.ip() { "a" } else { "b" });
        world
            .wait_for("an answer", async || match fetch(&world, from, to.ip()).await? {
                answer if answer == name => Ok(()),
                other => Err(other),
            })
            .await;
    }
    let (ip, name) = (a.ip().to_owned(), world.pod_name("a"));
    let connects = async || {
        let answer = get(&ip, 80).await?;
        if answer.ends_with(&format!("{name}\n")) { Ok(()) } else { Err(answer) }
    };
    world.wait_for("the node to reach a pod", connects).await;
    let main = world.container("a", "main").await.unwrap();
    let (hosts, _) = world.engine.exec(&main.id, &["cat", "/etc/hosts"]).await;
    assert!(hosts.starts_with("# Kubernetes-managed hosts file."), "{hosts}");
    assert!(hosts.contains(&format!("{ip}\t{name}\n")) && hosts.contains("192.0.2.7\tdb.example"), "{hosts}");
    let (resolv, _) = world.engine.exec(&main.id, &["cat", "/etc/resolv.conf"]).await;
    assert_eq!(resolv, "search x.example\nnameserver 192.0.2.53\n");
}

#[tokio::test]
async fn host_port_is_forwarded_from_all_clients_until_the_pod_ends() {
    let world = node("ports").await;
    let port = free_port();
    let number = port.number.to_string();
    let ports = format!("ports: [{{containerPort: 80, hostPort: {number}}}]");
    let script = format!("mkdir /tmp/www; hostname >/tmp/www/index.html; httpd -p 80 -h /tmp/www; {FOREVER}");
    world.write("web.yaml", &pod("web", &format!("containers:\n- {}", container("main", &script, &ports))));
    world.write("other.yaml", &server("other", ""));
    world.wait_ready("web").await;
    world.wait_ready("other").await;
    let name = world.pod_name("web");
    let gateway = gateway(&world);
    for host in ["127.0.0.1", &gateway] {
        world
            .wait_for("the port of the host", async || match get(host, port.number).await? {
                answer if answer.ends_with(&format!("{name}\n")) => Ok(()),
                other => Err(other),
            })
            .await;
    }
    for from in ["other", "web"] {
        world
            .wait_for(&format!("an answer to {from}"), async || {
                match fetch(&world, from, &format!("{gateway}:{number}")).await? {
                    answer if answer == name => Ok(()),
                    other => Err(other),
                }
            })
            .await;
    }
    world.remove("web.yaml");
    world.wait_gone("web").await;
    let closed = async || match get("127.0.0.1", port.number).await {
        Err(error) if error.contains("refused") => Ok(()),
        other => Err(format!("{other:?}")),
    };
    world.wait_for("the port to be closed", closed).await;
}

#[tokio::test]
async fn killed_kubelet_recovers_the_pod_addresses() {
    let mut world = node("again").await;
    world.write("a.yaml", &sleeper("a"));
    let before = world.wait_ready("a").await;
    world.kill();
    world.start().await;
    world.write("b.yaml", &sleeper("b"));
    let later = world.wait_ready("b").await;
    let after = world.wait_ready("a").await;
    assert_eq!((before.ip(), before.container_id("main")), (after.ip(), after.container_id("main")));
    assert_ne!(before.ip(), later.ip());
    assert_eq!(cables(&world.node).len(), 2);
}

#[tokio::test]
async fn pod_addresses_are_released_and_an_empty_node_has_no_network_state() {
    let mut world = World::new("little").await.with_flags(["--pod-cidr", "10.197.5.0/29"]);
    world.start().await;
    // Five addresses: the network address, the bridge's and the last one are not assigned to pods.
    for name in ["a", "b", "c", "d", "e", "f"] {
        world.write(&format!("{name}.yaml"), &sleeper(name));
    }
    let mut waits = String::new();
    world
        .wait_for("one of them to wait", async || {
            let pods = world.pods().await?;
            let (ready, rest): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| pod.is_ready());
            waits = rest.first().map(|pod| pod.name().to_owned()).unwrap_or_default();
            if (ready.len(), rest.len()) == (5, 1) {
                Ok(())
            } else {
                Err(format!("{} are ready", ready.len()))
            }
        })
        .await;
    let waits = waits.trim_end_matches(&format!("-{}", world.node)).to_owned();
    world.wait_for_event(&waits, "no address is free in 10.197.5.0/29, all 5 are in use").await;
    let goes = if waits == "a" { "b" } else { "a" };
    world.remove(&format!("{goes}.yaml"));
    world.wait_gone(goes).await;
    world.wait_ready(&waits).await;
    // The kernel removes the veth of an ended pod in the background.
    let five = async || match (records(&world.root_dir()), cables(&world.node).len()) {
        (5, 5) => Ok(()),
        other => Err(format!("{other:?} are left")),
    };
    world.wait_for("records and veths of five pods", five).await;
    for name in ["a", "b", "c", "d", "e", "f"].into_iter().filter(|name| *name != goes) {
        world.remove(&format!("{name}.yaml"));
    }
    for name in ["a", "b", "c", "d", "e", "f"] {
        world.wait_gone(name).await;
    }
    world
        .wait_for("the records to go", async || match records(&world.root_dir()) {
            0 => Ok(()),
            left => Err(format!("{left} are left")),
        })
        .await;
    assert!(bridge(&world.node).is_some());
    assert_eq!(routes(&world.node).len(), 1);
    has_no_cables(&world).await;
    world.stop().await;
    assert_eq!((bridge(&world.node), routes(&world.node)), (None, vec![]));
}

#[tokio::test]
async fn pod_cidr_that_overlaps_a_host_network_is_rejected() {
    let world = World::new("taken").await;
    let first = node("first").await;
    let third = gateway(&first).rsplit_once('.').unwrap().0.to_owned();
    let bridge = bridge(&first.node).unwrap();
    let mut world = world.with_flags(["--pod-cidr".to_owned(), format!("{third}.128/25")]);
    world.launch();
    world
        .wait_for("the refusal", async || {
            let log = world.log_tail();
            if log.contains(&format!(
                "overlaps the route of this machine to {third}.0/24 over {bridge} (pods of node {}): use another",
                first.node
            )) {
                Ok(())
            } else {
                Err(log)
            }
        })
        .await;
    assert!(!world.log_tail().contains("--pod-network docker"), "{}", world.log_tail());
}
