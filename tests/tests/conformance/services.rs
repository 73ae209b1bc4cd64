//! Endpoints of services: of the API itself, of services with selectors, and of those without.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::Cluster;

const HERE: &str = "/api/v1/namespaces/default";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// The path of the EndpointSlices of a service.
fn slices_of(service: &str) -> String {
    format!("{SLICES}?labelSelector=kubernetes.io/service-name%3D{service}")
}

/// The addresses in a list of slices.
fn addresses(list: &Value) -> Vec<&str> {
    let endpoints = |slice: &Value| slice["endpoints"].as_array().map_or(0, Vec::len);
    let slices = list["items"].as_array().unwrap();
    let each = slices.iter().flat_map(|slice| (0..endpoints(slice)).map(move |at| &slice["endpoints"][at]));
    each.filter_map(|endpoint| endpoint["addresses"][0].as_str()).collect()
}

/// A service on port 80 that selects pods by their `app` label; an empty string means no selector.
fn service(name: &str, selected: &str) -> Value {
    let selector = if selected.is_empty() { json!(null) } else { json!({"app": selected}) };
    json!({"metadata": {"name": name, "labels": {"of": name}},
        "spec": {"selector": selector, "ports": [{"name": "http", "port": 80, "targetPort": "web"}]}})
}

#[tokio::test]
async fn kubernetes_service_leads_to_the_api_server() {
    let cluster = Cluster::running().await;
    let number: u16 = cluster.master.port.to_string().parse().unwrap();
    let service = cluster.until(&format!("{HERE}/services/kubernetes"), |_| true).await;
    assert_eq!(
        (&service["spec"]["type"], &service["spec"]["clusterIP"]),
        (&json!("ClusterIP"), &json!("10.96.0.1"))
    );
    let port = &service["spec"]["ports"][0];
    assert_eq!(
        (&port["name"], &port["port"], &port["protocol"]),
        (&json!("https"), &json!(443), &json!("TCP"))
    );
    assert_eq!(port["targetPort"], number);
    let all = cluster.get("/api/v1/services").await.is(200);
    let is_it = |item: &&Value| {
        item["metadata"]["name"] == "kubernetes" && item["metadata"]["namespace"] == "default"
    };
    assert_eq!(all["items"].as_array().unwrap().iter().filter(is_it).count(), 1);

    let endpoints = cluster.until(&format!("{HERE}/endpoints/kubernetes"), |_| true).await;
    let subset = &endpoints["subsets"][0];
    assert_eq!((&subset["ports"][0]["name"], &subset["ports"][0]["port"]), (&json!("https"), &json!(number)));
    let ip = subset["addresses"][0]["ip"].as_str().unwrap();
    // The address is in the serving certificate and in the configuration of nodes.
    assert_eq!(cluster.master.file("advertised-address").trim(), format!("{ip}:{}", cluster.master.port));
    let slices = cluster.until(&slices_of("kubernetes"), |list| !addresses(list).is_empty()).await;
    assert_eq!((addresses(&slices), slices["items"].as_array().unwrap().len()), (vec![ip], 1));
    let slice = &slices["items"][0];
    assert_eq!((&slice["addressType"], &slice["ports"][0]["port"]), (&json!("IPv4"), &json!(number)));
    for path in [
        format!("{HERE}/services/kubernetes"),
        format!("{HERE}/endpoints/kubernetes"),
        format!("{SLICES}/kubernetes"),
    ] {
        let before = cluster.until(&path, |_| true).await["metadata"]["uid"].clone();
        let deleted = cluster.delete(&path).await;
        // The endpoints controller may have deleted the Endpoints with their service.
        assert!([200, 404].contains(&deleted.code), "{}", deleted.text);
        cluster.until(&path, |object| object["metadata"]["uid"] != before).await;
    }
}

#[tokio::test]
async fn service_without_pods_has_empty_endpoints() {
    let cluster = Cluster::running().await;
    cluster.post(&format!("{HERE}/services"), &service("empty", "nobody")).await.is(201);
    let path = format!("{HERE}/endpoints/empty");
    let endpoints = cluster.until(&path, |_| true).await;
    assert_eq!(
        (&endpoints["subsets"], &endpoints["metadata"]["labels"]["of"]),
        (&Value::Null, &json!("empty"))
    );
    let is_one = |list: &Value| list["items"].as_array().unwrap().len() == 1;
    let slices = cluster.until(&slices_of("empty"), is_one).await;
    let slice = &slices["items"][0];
    assert_eq!(addresses(&slices), [""; 0]);
    assert_eq!(
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"],
        "endpointslice-controller.k8s.io"
    );
    assert_eq!(slice["metadata"]["ownerReferences"][0]["name"], "empty");
    cluster.delete(&format!("{SLICES}/{}", slice["metadata"]["name"].as_str().unwrap())).await.is(200);
    cluster
        .until(&slices_of("empty"), |list| {
            is_one(list) && list["items"][0]["metadata"]["uid"] != slice["metadata"]["uid"]
        })
        .await;
    cluster.delete(&format!("{HERE}/services/empty")).await.is(200);
    cluster.gone(&path).await;
    cluster.until(&slices_of("empty"), |list| list["items"] == json!([])).await;
}

/// Sets the IP address and the Ready condition of a pod.
async fn mirrored(cluster: &Cluster, name: &str, ip: &str, ready: bool) {
    let condition = json!({"type": "Ready", "status": if ready { "True" } else { "False" }});
    let status = json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [condition]});
    cluster.patch(&format!("{HERE}/pods/{name}/status"), &json!({"status": status})).await.is(200);
}

#[tokio::test]
async fn endpoints_follow_the_pods_of_a_service() {
    let cluster = Cluster::running().await;
    cluster.namespace("unused").await;
    cluster.post(&format!("{HERE}/services"), &service("web", "web")).await.is(201);
    for (name, app, port) in [("a", "web", 8080), ("b", "web", 9090), ("c", "other", 8080)] {
        let container = json!({"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": port}]});
        let pod =
            json!({"metadata": {"name": name, "labels": {"app": app}}, "spec": {"containers": [container]}});
        cluster.until(&format!("{HERE}/serviceaccounts/default"), |_| true).await;
        cluster.post(&format!("{HERE}/pods"), &pod).await.is(201);
        mirrored(&cluster, name, &format!("10.1.0.{}", port / 1000), true).await;
    }
    let path = format!("{HERE}/endpoints/web");
    let ready = |ips: &'static [&'static str]| {
        move |endpoints: &Value| {
            let subsets = endpoints["subsets"].as_array().cloned().unwrap_or_default();
            let mirrored: Vec<&str> =
                subsets.iter().filter_map(|subset| subset["addresses"][0]["ip"].as_str()).collect();
            mirrored == ips
        }
    };
    let endpoints = cluster.until(&path, ready(&["10.1.0.8", "10.1.0.9"])).await;
    assert_eq!(endpoints["subsets"][0]["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
    // A slice for each port. A slice without endpoints, from before the pods, is deleted after they are created.
    let is_split = |list: &Value| addresses(list).len() == 2 && list["items"].as_array().unwrap().len() == 2;
    cluster.until(&slices_of("web"), is_split).await;
    mirrored(&cluster, "a", "10.1.0.8", false).await;
    let endpoints = cluster.until(&path, ready(&["10.1.0.9"])).await;
    assert_eq!(endpoints["subsets"][0]["notReadyAddresses"][0]["targetRef"]["name"], "a");
    let has_condition = |list: &Value, ip: &str, condition: &str| {
        let slices = list["items"].as_array().unwrap().iter();
        let mut endpoints = slices.filter_map(|slice| slice["endpoints"].get(0));
        endpoints.any(|endpoint| endpoint["addresses"][0] == ip && endpoint["conditions"][condition] == true)
    };
    cluster
        .until(&slices_of("web"), |list| {
            !has_condition(list, "10.1.0.8", "ready") && has_condition(list, "10.1.0.9", "serving")
        })
        .await;
    cluster.patch(&format!("{HERE}/pods/c"), &json!({"metadata": {"labels": {"app": "web"}}})).await.is(200);
    cluster
        .patch(&format!("{HERE}/pods/b"), &json!({"metadata": {"labels": {"app": "other"}}}))
        .await
        .is(200);
    cluster.delete(&format!("{HERE}/pods/a")).await;
    cluster.until(&path, ready(&["10.1.0.8"])).await;
    cluster.until(&slices_of("web"), |list| addresses(list) == ["10.1.0.8"]).await;
    let shown = cluster.kubectl(&["get", "service,endpoints,endpointslices", "-A"]).await;
    assert!(shown.stdout.contains("10.1.0.8:8080"), "{shown:?}");
}

#[tokio::test]
async fn endpoints_written_by_users_are_mirrored() {
    let cluster = Cluster::running().await;
    let name = "by-hand";
    cluster.post(&format!("{HERE}/services"), &service(name, "")).await.is(201);
    let subset =
        |ip: &str, port: u16| json!([{"addresses": [{"ip": ip}], "ports": [{"name": "http", "port": port}]}]);
    let endpoints =
        json!({"metadata": {"name": name, "labels": {"a": "b"}}, "subsets": subset("192.0.2.21", 80)});
    cluster.post(&format!("{HERE}/endpoints"), &endpoints).await.is(201);
    let slices = slices_of(name);
    let list = cluster.until(&slices, |list| addresses(list) == ["192.0.2.21"]).await;
    let slice = &list["items"][0];
    assert_eq!(
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"],
        "endpointslicemirroring-controller.k8s.io"
    );
    assert_eq!((&slice["metadata"]["labels"]["a"], &slice["ports"][0]["port"]), (&json!("b"), &json!(80)));
    let path = format!("{HERE}/endpoints/{name}");
    cluster.update(&path, |endpoints| endpoints["subsets"] = subset("192.0.2.22", 81)).await;
    let list = cluster.until(&slices, |list| addresses(list) == ["192.0.2.22"]).await;
    assert_eq!(list["items"][0]["ports"][0]["port"], 81);
    cluster.delete(&path).await.is(200);
    cluster.until(&slices, |list| list["items"] == json!([])).await;
}

#[tokio::test]
async fn endpoints_of_a_hundred_services_appear_within_seconds() {
    let cluster = Cluster::running().await;
    cluster.until(&format!("{HERE}/serviceaccounts/default"), |_| true).await;
    let container = json!({"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 8080}]});
    let pod =
        json!({"metadata": {"name": "a", "labels": {"app": "web"}}, "spec": {"containers": [container]}});
    cluster.post(&format!("{HERE}/pods"), &pod).await.is(201);
    mirrored(&cluster, "a", "10.1.0.8", true).await;
    let names: Vec<String> = (0..100).map(|number| format!("web-{number}")).collect();
    let mut created = Vec::new();
    for name in &names {
        created.push(Instant::now());
        cluster.post(&format!("{HERE}/services"), &service(name, "web")).await.is(201);
    }
    let mut delays = Vec::new();
    for (name, created) in names.iter().zip(created) {
        let is_ready = |endpoints: &Value| endpoints["subsets"][0]["addresses"][0]["ip"] == "10.1.0.8";
        cluster.until(&format!("{HERE}/endpoints/{name}"), is_ready).await;
        delays.push(created.elapsed());
    }
    delays.sort();
    // The limits of the suite: the median, and the 99th percentile.
    assert!(delays[49] < Duration::from_secs(20) && delays[98] < Duration::from_secs(50), "{delays:?}");
}
