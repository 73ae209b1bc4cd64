//! Permissions of a node, with a node certificate and a real kubectl: only objects of its pods.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tests::{Master, Output};

/// A master with a namespace `shop`, two nodes with a pod each, and kubeconfigs.
struct Bed {
    master: Master,
    admin: PathBuf,
    node: PathBuf,
}

impl Bed {
    async fn new() -> Self {
        // The pods are on nodes that do not exist. The pod garbage collector would delete them after 40 seconds.
        let mut master = Master::new().with_flags(["--controllers", "*,-pod-garbage-collector-controller"]);
        master.start().await;
        let admin = master.data_dir().join("admin.kubeconfig");
        let node = master.user("system:node:a", &["system:nodes"]).await;
        let bed = Self { master, admin, node };
        for line in [
            "create namespace shop",
            "create secret generic of-a -n shop --from-literal=k=v",
            "create secret generic of-b -n shop --from-literal=k=v",
            "create secret generic late -n shop --from-literal=k=v",
            "create serviceaccount web -n shop",
        ] {
            bed.may(&bed.admin, line).await;
        }
        bed.master.until_found("/api/v1/namespaces/shop/configmaps/kube-root-ca.crt").await;
        bed.make(&bed.admin, &pod("web-a", "a", "of-a")).await;
        bed.make(&bed.admin, &pod("web-b", "b", "of-b")).await;
        bed
    }

    async fn run(&self, who: &Path, line: &str) -> Output {
        self.master.kubectl(who, &line.split(' ').collect::<Vec<_>>()).await
    }

    /// Output of a kubectl command that must succeed.
    async fn may(&self, who: &Path, line: &str) -> String {
        let output = self.run(who, line).await;
        assert!(output.code == 0, "kubectl {line}: {output:?}\n{}", self.master.log());
        output.stdout.trim_end().to_owned()
    }

    async fn may_not(&self, who: &Path, line: &str, why: &str) {
        let output = self.run(who, line).await;
        assert!(output.code != 0 && output.stderr.contains(why), "kubectl {line}: {output:?} is not {why}");
    }

    fn file(&self, object: &Value) -> String {
        let path = self.master.data_dir().join("object.json");
        fs::write(&path, object.to_string()).unwrap();
        path.display().to_string()
    }

    async fn make(&self, who: &Path, object: &Value) {
        self.may(who, &format!("create -f {}", self.file(object))).await;
    }
}

/// A pod of the service account `web` that references a secret.
fn pod(name: &str, node: &str, secret: &str) -> Value {
    let container = json!({"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": secret}}]});
    let mut spec = json!({"serviceAccountName": "web", "containers": [container]});
    if !node.is_empty() {
        spec["nodeName"] = node.into();
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop"}, "spec": spec})
}

#[tokio::test]
async fn node_may_read_only_objects_that_its_pods_reference() {
    let bed = Bed::new().await;
    let of_node = "User \"system:node:a\" cannot";
    let kubelet = bed.master.user("kubelet:a", &["system:nodes"]).await;
    for who in [&bed.node, &kubelet] {
        for line in [
            "get secret of-a -n shop",
            "get secrets -n shop --field-selector metadata.name=of-a",
            "get configmap kube-root-ca.crt -n shop",
            "get serviceaccount web -n shop",
            "get pod web-a -n shop",
            "get services -A",
            "get nodes",
        ] {
            bed.may(who, line).await;
        }
        let own = bed.may(who, "get pods -A -o name --field-selector spec.nodeName=a").await;
        assert_eq!(own, "pod/web-a");
        for (line, why) in [
            ("get secret of-b -n shop", "no relationship found between node 'a' and this object"),
            ("get configmap kube-root-ca.crt -n default", "no relationship found"),
            ("get secrets -n shop", "No Object name found"),
            ("get secrets -A", "can only read namespaced object of this type"),
            ("get pods -A", "can only list/watch pods with spec.nodeName field selector"),
            ("get pods -A --field-selector spec.nodeName=b", "can only list/watch pods with spec.nodeName"),
            ("get pod web-b -n shop", "no relationship found"),
            // A node may get any Node object.
            ("get node b", "nodes \"b\" not found"),
            ("get deployments -A", "cannot list resource \"deployments\" in API group \"apps\""),
            ("delete pod web-b -n shop", "node \"a\" can only delete pods with spec.nodeName set to itself"),
            ("create namespace mine", "cannot create resource \"namespaces\""),
            ("create serviceaccount x -n shop", "can only create tokens for individual service accounts"),
        ] {
            bed.may_not(who, line, why).await;
        }
    }
    bed.may_not(&bed.node, "get secret of-b -n shop", of_node).await;
    for (line, expected) in [
        ("auth can-i get secret/of-a -n shop", "yes"),
        ("auth can-i get secret/of-b -n shop", "no - no relationship found between node 'a' and this object"),
        ("auth can-i delete nodes", "no"),
    ] {
        let found = bed.run(&bed.node, line).await;
        assert_eq!(found.stdout.trim_end().lines().next(), Some(expected), "{line} {found:?}");
    }
    let list = bed.run(&bed.node, "auth can-i --list -n shop").await;
    assert!(list.stderr.contains("node authorizer does not support user rule resolution"), "{list:?}");
    // The group identifies nodes, not the user name.
    let stranger = bed.master.user("system:node:b", &[]).await;
    bed.may_not(&stranger, "get secret of-b -n shop", "User \"system:node:b\" cannot get resource").await;
}

#[tokio::test]
async fn node_access_follows_binding_and_deletion_of_pods_immediately() {
    let bed = Bed::new().await;
    bed.make(&bed.admin, &pod("late", "", "late")).await;
    bed.may_not(&bed.node, "get secret late -n shop", "no relationship found").await;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "late"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "a"},
    });
    let path = "/api/v1/namespaces/shop/pods/late/binding";
    bed.may(&bed.admin, &format!("create --raw {path} -f {}", bed.file(&binding))).await;
    bed.may(&bed.node, "get secret late -n shop").await;
    bed.may(&bed.admin, "delete pod late -n shop --grace-period=0 --force").await;
    bed.may_not(&bed.node, "get secret late -n shop", "no relationship found").await;

    let uid = bed.may(&bed.admin, "get pod web-a -n shop -o jsonpath={.metadata.uid}").await;
    let token = "create token web -n shop";
    let of = |pod: &str, uid: &str| {
        format!("{token} --bound-object-kind=Pod --bound-object-name={pod} --bound-object-uid={uid}")
    };
    assert_eq!(bed.may(&bed.node, &of("web-a", &uid)).await.split('.').count(), 3);
    let other = bed.may(&bed.admin, "get pod web-b -n shop -o jsonpath={.metadata.uid}").await;
    for (line, why) in [
        (token.to_owned(), "node requested token not bound to a pod"),
        (of("web-a", "old"), "does not match the UID in record"),
        (of("web-b", &other), "node requested token bound to a pod scheduled on a different node"),
        (
            format!("{} --audience=vault", of("web-a", &uid)),
            "audience \"vault\" not found in pod spec volume",
        ),
        ("create token default -n shop".to_owned(), "no relationship found"),
    ] {
        bed.may_not(&bed.node, &line, why).await;
    }
}

#[tokio::test]
async fn node_may_write_only_its_own_permitted_fields() {
    let bed = Bed::new().await;
    let own = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    let foreign = bed.file(&own("b"));
    bed.may_not(&bed.node, &format!("create -f {foreign}"), "node \"a\" is not allowed to modify node \"b\"")
        .await;
    bed.make(&bed.node, &own("a")).await;
    bed.may(&bed.node, "get node a").await;
    bed.may(&bed.node, "label node a kubernetes.io/hostname=a rack=7").await;
    for (line, why) in [
        (
            "label node a node-restriction.kubernetes.io/gold=yes",
            "is not allowed to modify labels: node-restriction.kubernetes.io/gold",
        ),
        ("taint node a gold=yes:NoSchedule", "node \"a\" is not allowed to modify taints"),
        ("delete node a", "cannot delete resource \"nodes\""),
    ] {
        bed.may_not(&bed.node, line, why).await;
    }
    let uid = bed.may(&bed.node, "get node a -o jsonpath={.metadata.uid}").await;
    let mut mirror = pod("image", "a", "of-b");
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "a", "uid": uid, "controller": true});
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    mirror["metadata"]["ownerReferences"] = json!([owner]);
    mirror["spec"].as_object_mut().unwrap().remove("serviceAccountName");
    let names = "node \"a\" can not create pods that reference secrets";
    bed.may_not(&bed.node, &format!("create -f {}", bed.file(&mirror)), names).await;
    mirror["spec"]["containers"][0].as_object_mut().unwrap().remove("envFrom");
    bed.make(&bed.node, &mirror).await;
    bed.may(&bed.node, "delete pod image -n shop --grace-period=0 --force").await;
    let lease = |name: &str| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": "kube-node-lease"}});
    bed.make(&bed.node, &lease("a")).await;
    let foreign = bed.file(&lease("b"));
    let why = "can only access node lease with the same name as the requesting node";
    bed.may_not(&bed.node, &format!("create -f {foreign}"), why).await;
}
