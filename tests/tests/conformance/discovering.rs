//! Discovery in both formats, and the version.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::definitions::{define, definition};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn aggregated(cluster: &Cluster, path: &str) -> Value {
    cluster.send("GET", path, &[("accept", AGGREGATED)], "").await.is(200)
}

/// The resource in an aggregated discovery document.
fn resource<'a>(list: &'a Value, group: &str, version: &str, name: &str) -> Option<&'a Value> {
    let find = |list: &'a Value, key: &str, is: &dyn Fn(&Value) -> bool| {
        list[key].as_array().unwrap().iter().find(|v| is(v))
    };
    let group = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["metadata"]["name"].as_str().unwrap_or("") == group)?;
    let version = find(group, "versions", &|v| v["version"] == version)?;
    find(version, "resources", &|v| v["resource"] == name)
}

#[tokio::test]
async fn aggregated_discovery_lists_all_resources() {
    let cluster = Cluster::running().await;
    let core = aggregated(&cluster, "/api").await;
    assert_eq!(resource(&core, "", "v1", "pods").unwrap()["responseKind"]["kind"], "Pod");
    let groups = aggregated(&cluster, "/apis").await;
    for (group, name, kind) in [
        ("apps", "deployments", "Deployment"),
        ("batch", "jobs", "Job"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
        ("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "apiservices", "APIService"),
        ("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest"),
        ("coordination.k8s.io", "leases", "Lease"),
        ("discovery.k8s.io", "endpointslices", "EndpointSlice"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas", "FlowSchema"),
        ("networking.k8s.io", "ingresses", "Ingress"),
        ("node.k8s.io", "runtimeclasses", "RuntimeClass"),
        ("policy", "poddisruptionbudgets", "PodDisruptionBudget"),
        ("rbac.authorization.k8s.io", "roles", "Role"),
        ("scheduling.k8s.io", "priorityclasses", "PriorityClass"),
        ("storage.k8s.io", "storageclasses", "StorageClass"),
    ] {
        let found = resource(&groups, group, "v1", name).unwrap_or_else(|| panic!("{group} {name}"));
        assert_eq!(found["responseKind"]["kind"], kind, "{found}");
    }
    define(&cluster, &definition("e2e.example.com", "foo", "Foo")).await;
    let groups = aggregated(&cluster, "/apis").await;
    assert_eq!(resource(&groups, "e2e.example.com", "v1", "foos").unwrap()["scope"], "Namespaced");
    assert_eq!(resource(&groups, "e2e.example.com", "v1", "foos").unwrap()["responseKind"]["kind"], "Foo");
}

#[tokio::test]
async fn discovery_format_follows_the_accept_header() {
    let cluster = Cluster::running().await;
    define(&cluster, &definition("e2e.example.com", "foo", "Foo")).await;
    let beta = AGGREGATED.replace("v=v2", "v=v2beta1");
    for (accept, kind, version) in [
        ("application/json".to_owned(), "APIGroupList", "v1"),
        (AGGREGATED.to_owned(), "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"),
        (beta.clone(), "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2beta1"),
        (format!("{AGGREGATED},{beta},application/json"), "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"),
    ] {
        let answer = cluster.send("GET", "/apis", &[("accept", &accept)], "").await;
        let content_type = answer.headers["content-type"].to_str().unwrap().to_owned();
        let body = answer.is(200);
        assert_eq!((&body["kind"], &body["apiVersion"]), (&json!(kind), &json!(version)), "{accept}");
        assert_eq!(
            content_type.contains("as=APIGroupDiscoveryList"),
            kind == "APIGroupDiscoveryList",
            "{content_type}"
        );
        assert!(body.to_string().contains("e2e.example.com"));
    }
}

#[tokio::test]
async fn discovery_lists_versions_and_resources_of_every_group() {
    let cluster = Cluster::running().await;
    let groups = cluster.get("/apis").await.is(200);
    for group in groups["groups"].as_array().unwrap() {
        let name = group["name"].as_str().unwrap();
        let alone = cluster.get(&format!("/apis/{name}")).await.is(200);
        assert_eq!(alone["name"], name);
        let versions = alone["versions"].as_array().unwrap();
        assert!(versions.contains(&alone["preferredVersion"]), "{alone}");
        for version in versions {
            let version = version["groupVersion"].as_str().unwrap();
            let list = cluster.get(&format!("/apis/{version}")).await.is(200);
            assert!(
                list["groupVersion"] == version && !list["resources"].as_array().unwrap().is_empty(),
                "{list}"
            );
        }
    }
    let version = cluster.get("/apis/apiextensions.k8s.io/v1").await.is(200);
    assert!(version.to_string().contains("customresourcedefinitions"));
}

#[tokio::test]
async fn version_endpoint_returns_numbers() {
    let version = Cluster::running().await.get("/version").await.is(200);
    let number = |of: &str| version[of].as_str().unwrap().trim_end_matches('+').parse::<u32>().unwrap();
    assert_eq!(number("major"), 1, "{version}");
    assert!(number("minor") > 0 && version["gitVersion"].as_str().unwrap().starts_with("v1."), "{version}");
}
