//! Paginated lists, and the refusal to show an access review as a table.

use serde_json::{Value, json};

use crate::cluster::{Cluster, revision};

const TEMPLATES: &str = "/api/v1/namespaces/default/podtemplates";

#[tokio::test]
async fn paginated_list_is_consistent() {
    const ALL: usize = 40;
    let cluster = Cluster::running().await;
    let name = |number: usize| format!("template-{number:04}");
    let template = |name: &str| json!({"metadata": {"name": name}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}});
    for number in 0..ALL {
        cluster.post(TEMPLATES, &template(&name(number))).await.is(201);
    }
    for limit in [1, 7, ALL - 1, ALL, ALL + 1] {
        let (mut seen, mut next, mut first) = (Vec::<String>::new(), String::new(), None);
        loop {
            let piece = cluster.get(&format!("{TEMPLATES}?limit={limit}&continue={next}")).await.is(200);
            let items = piece["items"].as_array().unwrap();
            assert!(items.len() <= limit);
            seen.extend(items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()));
            assert_eq!(first.get_or_insert_with(|| revision(&piece)), &revision(&piece), "one moment");
            next = piece["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if next.is_empty() {
                assert_eq!(piece["metadata"]["remainingItemCount"], Value::Null);
                break;
            }
            assert_eq!(piece["metadata"]["remainingItemCount"], ALL - seen.len());
            // Objects created after the first page are not in the list.
            if limit == 7 && seen.len() == 7 {
                cluster.post(TEMPLATES, &template("template-9999")).await.is(201);
            }
        }
        assert_eq!(seen, (0..ALL).map(name).collect::<Vec<_>>(), "in pieces of {limit}");
        if limit == 7 {
            cluster.delete(&format!("{TEMPLATES}/template-9999")).await.is(200);
        }
    }
    assert_eq!(cluster.names(TEMPLATES).await.len(), ALL);
}

#[tokio::test]
async fn paginated_list_continues_after_compaction() {
    // More changes than the number of retained snapshots for paginated lists.
    const CHANGES: usize = 50;
    let cluster = Cluster::running().await;
    for name in ["a", "b", "c", "d", "e"] {
        let template = json!({"metadata": {"name": name}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}});
        cluster.post(TEMPLATES, &template).await.is(201);
    }
    let first = cluster.get(&format!("{TEMPLATES}?limit=2")).await.is(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    for number in 0..CHANGES {
        let large = (number % 10).to_string().repeat(200 * 1024);
        let patch = json!({"metadata": {"annotations": {"large": large}}});
        cluster.patch(&format!("{TEMPLATES}/a"), &patch).await.is(200);
    }
    cluster.delete(&format!("{TEMPLATES}/d")).await.is(200);
    let expired = cluster.get(&format!("{TEMPLATES}?limit=2&continue={token}")).await;
    expired.refuses(410, "The provided continue parameter is too old");
    assert_eq!(expired.body["reason"], "Expired");
    let token = expired.body["metadata"]["continue"].as_str().unwrap();
    let rest = cluster.get(&format!("{TEMPLATES}?limit=1&continue={token}")).await.is(200);
    assert_eq!(rest["items"][0]["metadata"]["name"], "c");
    let token = rest["metadata"]["continue"].as_str().unwrap();
    assert_eq!(cluster.names(&format!("{TEMPLATES}?continue={token}")).await, ["e"]);
}

#[tokio::test]
async fn access_reviews_have_no_table_format() {
    let cluster = Cluster::running().await;
    let question = json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}).to_string();
    let headers =
        [("content-type", "application/json"), ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(cluster.send("POST", path, &headers, question).await.is(406)["reason"], "NotAcceptable");
}
