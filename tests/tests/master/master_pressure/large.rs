//! A user of one namespace stores as many large objects as possible: nodes and controllers keep working, also after a
//! restart.

use serde_json::{Value, json};
use tests::{DEADLINE, Master, trusting, wait_until};

use crate::master_pressure::bed::{MAPS, map, resident_kib, url, user, user_files};

const NAMESPACES: &str = "/api/v1/namespaces";
/// ConfigMaps of 1.25 MiB each; together more than the 64 MiB limit of a controller's list.
const CONFIG_MAPS: usize = 60;
/// Lists that one user has open without reading them.
const SLOW_LISTS: usize = 20;
/// Maximum memory growth in KiB: buffers of their connections. A copy for each list would take 750 MiB.
const SLOW_LISTS_KIB: u64 = 128 * 1024;
/// Maximum size of a list page that a kubelet reads.
const KUBELET_READS: usize = 16 << 20;

/// A ConfigMap of the maximum size.
fn large_map(name: &str) -> Value {
    let mut object = map(name);
    object["metadata"]["annotations"] = json!({"a": "x".repeat(250_000)});
    object["data"] = json!({"x": "x".repeat(1_040_000)});
    object
}

fn pod(name: &str, bytes: usize) -> Value {
    let container = json!({"name": "c", "image": "i", "args": ["x".repeat(bytes)]});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": "n1", "containers": [container]}})
}

/// Names in all pages of a list, and the size of the largest page in bytes.
async fn pages(client: &reqwest::Client, first: &str) -> (Vec<String>, usize) {
    let (mut names, mut largest, mut token) = (Vec::new(), 0, String::new());
    loop {
        let text = client.get(format!("{first}{token}")).send().await.unwrap().text().await.unwrap();
        largest = largest.max(text.len());
        let page: Value = serde_json::from_str(&text).unwrap();
        let items = page["items"].as_array().unwrap_or_else(|| panic!("{page}")).iter();
        names.extend(items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()));
        match page["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => token = format!("&continue={next}"),
            _ => return (names, largest),
        }
    }
}

#[tokio::test]
async fn many_large_objects_leave_nodes_and_controllers_working() {
    let mut master = Master::running().await;
    let jane = user(&master, "jane").await;
    let big = json!({"metadata": {"name": "big"}});
    assert_eq!(jane.post(url(&master, NAMESPACES)).json(&big).send().await.unwrap().status(), 201);
    let maps = url(&master, &format!("{NAMESPACES}/big/configmaps"));
    for number in 0..CONFIG_MAPS {
        let made = jane.post(&maps).json(&large_map(&format!("m{number}"))).send().await.unwrap();
        assert_eq!(made.status(), 201, "{number}: {}", made.text().await.unwrap());
    }
    // Without their node, the pods would be deleted after 40 seconds.
    let node = json!({"metadata": {"name": "n1"}});
    assert_eq!(jane.post(url(&master, "/api/v1/nodes")).json(&node).send().await.unwrap().status(), 201);
    let pods = url(&master, &format!("{NAMESPACES}/default/pods"));
    for number in 0..9 {
        let look = async || match jane.post(&pods).json(&pod(&format!("p{number}"), 1_400_000)).send().await {
            Ok(made) if made.status() == 201 => Ok(()),
            // A controller creates the namespace's service account after a moment.
            other => Err(format!("{other:?}")),
        };
        wait_until(DEADLINE, look).await.unwrap();
    }
    // Objects above the stock limit are rejected with etcd's message.
    let refused = jane.post(&pods).json(&pod("huge", 1_600_000)).send().await.unwrap();
    assert_eq!(refused.status(), 413);
    let refused: Value = refused.json().await.unwrap();
    assert_eq!(refused["reason"], "RequestEntityTooLarge");
    assert!(refused["message"].as_str().unwrap().contains("etcdserver: request is too large"), "{refused}");

    master.until_found(&format!("{NAMESPACES}/big/configmaps/kube-root-ca.crt")).await;
    // Every page is within the kubelet's limit.
    let of_node = format!("{}?fieldSelector=spec.nodeName%3Dn1&limit=100", url(&master, "/api/v1/pods"));
    let (names, largest) = pages(&jane, &of_node).await;
    assert!(names.len() == 9 && largest < KUBELET_READS, "{} pods, {largest} bytes", names.len());
    let (names, largest) = pages(&jane, &format!("{maps}?limit=500")).await;
    assert!(names.len() > CONFIG_MAPS && largest < KUBELET_READS, "{} maps, {largest} bytes", names.len());

    // After a restart, controllers list everything, collect garbage and empty namespaces.
    master.kill();
    master.start().await;
    let mut dependent = map("dependent");
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "7b2ef5a4-0f25-4a4b-9f5e-3f8b8a3b4c5d"});
    dependent["metadata"]["ownerReferences"] = json!([owner]);
    assert_eq!(jane.post(url(&master, MAPS)).json(&dependent).send().await.unwrap().status(), 201);
    let deleted = jane.delete(url(&master, &format!("{NAMESPACES}/big"))).send().await.unwrap();
    assert!(deleted.status().is_success(), "{deleted:?}");
    for path in [format!("{MAPS}/dependent"), format!("{NAMESPACES}/big")] {
        let look = async || match jane.get(url(&master, &path)).send().await.unwrap().status().as_u16() {
            404 => Ok(()),
            code => Err(format!("{path}: {code}")),
        };
        wait_until(3 * DEADLINE, look).await.unwrap_or_else(|seen| panic!("{seen}\n{}", master.log()));
    }
    assert!(!master.log().contains("cannot list"), "{}", master.log());
}

#[tokio::test]
async fn slowly_read_unlimited_lists_use_little_memory() {
    let master = Master::running().await;
    let who = user_files(&master, "jane").await;
    let jane = || trusting(&who.0, Some((&who.1, &who.2))).unwrap();
    let (maps, writer) = (url(&master, MAPS), jane());
    for number in 0..CONFIG_MAPS / 2 {
        let made = writer.post(&maps).json(&large_map(&format!("m{number}"))).send().await.unwrap();
        assert_eq!(made.status(), 201, "{number}");
    }
    for accept in ["application/json", "application/vnd.kubernetes.protobuf"] {
        let before = resident_kib(&master);
        let clients: Vec<reqwest::Client> = (0..SLOW_LISTS).map(|_| jane()).collect();
        let mut slow = Vec::new();
        // One after another: a user has a short queue of requests that encode much.
        for client in &clients {
            let list = client.get(&maps).header("accept", accept).header("accept-encoding", "gzip");
            let list = list.send().await.unwrap();
            assert_eq!((list.status().as_u16(), list.headers().get("content-encoding")), (200, None));
            assert_eq!(list.headers()["content-type"], accept);
            slow.push(list);
        }
        let grown = resident_kib(&master).saturating_sub(before);
        println!("{SLOW_LISTS} lists in {accept} that are not read: {grown} KiB more");
        assert!(grown < SLOW_LISTS_KIB, "{accept}: {grown} KiB");
        // A list that is read arrives whole.
        let list = slow.swap_remove(0).bytes().await.unwrap();
        let large = list.split(|byte| *byte != b'x').filter(|text| text.len() >= 1_040_000);
        assert_eq!(large.count(), CONFIG_MAPS / 2, "{accept}");
    }
}
