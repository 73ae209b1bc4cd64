//! The environment of a pod's processes: variables, commands, hosts file.

use bollard::models::{ContainerConfig, ContainerCreateBody};
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, RemoveContainerOptionsBuilder, RemoveImageOptionsBuilder,
};
use serde_json::{Value, json};
use tests::{Engine, IMAGE, World};

use crate::node::{Case, Node, shell, slug, with};
use crate::pod_volumes::amounts;

/// Prints the initial environment of a container's first process, including names that a shell would drop.
const GIVEN: &str = "tr '\\0' '\\n' </proc/1/environ | grep -i data | sort";

fn case(name: &str, container: &Value, prints: &str) -> Case {
    Case { name: slug(name), pod: json!({"spec": {"containers": [container]}}), prints: prints.to_owned() }
}

fn scripted(name: &str, script: &str, more: &Value, prints: &str) -> Case {
    case(name, &with(shell(script), more), prints)
}

fn field(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
}

fn amount(name: &str, resource: &str) -> Value {
    json!({"name": name, "valueFrom": {"resourceFieldRef": {"resource": resource}}})
}

#[tokio::test]
async fn env_vars_get_values_from_all_sources() {
    let node = Node::running("env").await;
    let keys = json!({"data_1": "value-1", "data_2": "value-2"});
    for (kind, field) in [("configmaps", "data"), ("secrets", "stringData")] {
        let path = format!("/api/v1/namespaces/default/{kind}");
        node.cluster.post(&path, &json!({"metadata": {"name": "conf"}, field: keys})).await.is(201);
    }
    let (cores, bytes) = amounts(&node.object().await["status"]["allocatable"]);
    let mut cases = Vec::new();
    for kind in ["configMap", "secret"] {
        let key = json!({format!("{kind}KeyRef"): {"name": "conf", "key": "data_1"}});
        let one = json!({"env": [{"name": "MY_DATA", "valueFrom": key}]});
        cases.push(scripted(&format!("{kind} {}", "one key"), GIVEN, &one, "MY_DATA=value-1"));
        let from = |prefix: &str| json!({"prefix": prefix, format!("{kind}Ref"): {"name": "conf"}});
        let all = json!({"envFrom": [{format!("{kind}Ref"): {"name": "conf"}}, from("p_")]});
        let prints = "data_1=value-1\ndata_2=value-2\np_data_1=value-1\np_data_2=value-2";
        cases.push(scripted(&format!("{kind} {}", "all keys"), GIVEN, &all, prints));
        let odd = json!({"envFrom": [from("1-"), from("$_-"), from("p.")]});
        let prints = "$_-data_1=value-1\n$_-data_2=value-2\n1-data_1=value-1\n1-data_2=value-2\np.data_1=value-1\np.data_2=value-2";
        cases.push(scripted(&format!("{kind} {}", "prefixes"), GIVEN, &odd, prints));
    }
    let amounts = [
        ("CPU", "limits.cpu"),
        ("CPU_REQUEST", "requests.cpu"),
        ("MEMORY", "limits.memory"),
        ("MEMORY_REQUEST", "requests.memory"),
    ]
    .map(|(name, resource)| amount(name, resource));
    let resources =
        json!({"limits": {"cpu": "1250m", "memory": "64Mi"}, "requests": {"cpu": "250m", "memory": "32Mi"}});
    for (name, env, script, prints) in [
        (
            "name, namespace, address",
            json!([
                field("N", "metadata.name"),
                field("NS", "metadata.namespace"),
                field("IP", "status.podIP")
            ]),
            "echo $N $NS $IP",
            "{/metadata/name} default {/status/podIP}",
        ),
        ("address of the host", json!([field("HOST", "status.hostIP")]), "echo $HOST", "{/status/hostIP}"),
        (
            "addresses of the host",
            json!([field("HOSTS", "status.hostIPs")]),
            "echo $HOSTS",
            "{/status/hostIPs/0/ip}",
        ),
        ("uid", json!([field("ID", "metadata.uid")]), "echo $ID", "{/metadata/uid}"),
        (
            "amounts of the node",
            json!([amounts[0], amounts[2]]),
            "echo $CPU $MEMORY",
            format!("{cores} {bytes}").as_str(),
        ),
        (
            "of variables",
            json!([{"name": "FOO", "value": "foo-value"}, {"name": "BAR", "value": "bar-value"}, {"name": "FOOBAR", "value": "$(FOO);;$(BAR) $$(FOO)"}]),
            "echo \"$FOOBAR\"",
            "foo-value;;bar-value $(FOO)",
        ),
        (
            "in a command",
            json!([{"name": "TEST", "value": "right"}]),
            "TEST=wrong; echo \"$(TEST)\"",
            "right",
        ),
    ] {
        cases.push(scripted(name, script, &json!({"env": env}), prints));
    }
    let env = json!({"env": amounts, "resources": resources});
    let script = "echo $CPU $CPU_REQUEST $MEMORY $MEMORY_REQUEST";
    cases.push(scripted("amounts", script, &env, "2 1 67108864 33554432"));
    let arguments = json!({"args": ["-c", "TEST=wrong; echo \"$(TEST)\""], "command": ["sh"], "env": [{"name": "TEST", "value": "right"}]});
    cases.push(case("in arguments", &with(shell(""), &arguments), "right"));
    node.print(cases).await;
}

/// A temporary image with its own entrypoint and command.
struct Own {
    engine: Engine,
    name: String,
}

impl Own {
    async fn new(world: &World) -> Self {
        let docker = world.engine.docker();
        let body = ContainerCreateBody { image: Some(IMAGE.to_owned()), ..ContainerCreateBody::default() };
        let made = docker.create_container(None, body).await.unwrap();
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        let config = ContainerConfig {
            entrypoint: words(&["echo", "entrypoint"]),
            cmd: words(&["default", "arguments"]),
            ..ContainerConfig::default()
        };
        let name = world.node.clone();
        let options = CommitContainerOptionsBuilder::new().container(&made.id).repo(&name).tag("1").build();
        let committed = docker.commit_container(options, config).await;
        let force = RemoveContainerOptionsBuilder::new().force(true).build();
        docker.remove_container(&made.id, Some(force)).await.unwrap();
        committed.unwrap();
        Self { engine: world.engine.clone(), name: format!("{name}:1") }
    }

    /// Removes the image, once no container uses it.
    async fn goes(self) {
        let options = RemoveImageOptionsBuilder::new().force(true).build();
        self.engine.docker().remove_image(&self.name, Some(options), None).await.unwrap();
    }
}

#[tokio::test]
async fn command_and_args_override_those_of_the_image() {
    let node = Node::running("image").await;
    let image = Own::new(&node.world).await;
    let cases = [
        ("image alone", json!({}), "entrypoint default arguments"),
        ("other arguments", json!({"args": ["override", "it"]}), "entrypoint override it"),
        ("other command", json!({"command": ["echo", "command"]}), "command"),
        ("both", json!({"command": ["echo", "command"], "args": ["override", "it"]}), "command override it"),
    ]
    .map(|(name, more, prints)| {
        let main = json!({"name": "main", "image": image.name, "imagePullPolicy": "Never"});
        case(name, &with(main, &more), prints)
    });
    node.print(cases.into()).await;
    drop(node);
    image.goes().await;
}

#[tokio::test]
async fn hosts_file_contains_aliases_and_pod_names() {
    let node = Node::running("hosts").await;
    let alias = json!([{"ip": "123.45.67.89", "hostnames": ["foo", "bar"]}]);
    let main = shell("grep -v '^#' /etc/hosts | grep 123 | tr '\\t' ' '");
    let pod = json!({"spec": {"containers": [main], "hostAliases": alias}});
    let mut cases = vec![Case { name: slug("aliases"), pod, prints: "123.45.67.89 foo bar".to_owned() }];

    // The kubelet writes it, except for pods on the host network and for containers that mount their own.
    let is_managed = "grep -c '^# Kubernetes-managed hosts file\\.$' /etc/hosts || true";
    let volume = json!({"name": "hosts", "hostPath": {"path": "/etc/hosts", "type": "File"}});
    let mount = json!([{"name": "hosts", "mountPath": "/etc/hosts"}]);
    let own = with(shell(is_managed), &json!({"volumeMounts": mount}));
    for (name, container, host, prints) in [
        ("managed", shell(is_managed), false, "1"),
        ("of the container", own, false, "0"),
        ("of the host", shell(is_managed), true, "0"),
    ] {
        let spec = json!({"containers": [container], "volumes": [volume], "hostNetwork": host});
        cases.push(Case { name: slug(name), pod: json!({"spec": spec}), prints: prints.to_owned() });
    }
    node.print(cases).await;
}

/// A pod that keeps running and mounts the part of a volume that an expression names.
fn mounts(expression: &str, env: &Value) -> Value {
    let mount = json!([{"name": "v", "mountPath": "/part", "subPathExpr": expression}, {"name": "v", "mountPath": "/whole"}]);
    let main = with(shell(tests::manifest::FOREVER), &json!({"env": env, "volumeMounts": mount}));
    json!({"spec": {"containers": [main], "volumes": [{"name": "v", "emptyDir": {}}]}})
}

#[tokio::test]
async fn sub_path_expressions_are_expanded() {
    let node = Node::running("expand").await;
    let own = json!([field("POD_NAME", "metadata.name")]);
    let mut pod = mounts("$(POD_NAME)/x", &own);
    pod["spec"]["containers"][0]["command"] = json!(["sh", "-c", "touch /part/file; ls -d /whole/*/x/file"]);
    let prints = "/whole/{/metadata/name}/x/file".to_owned();
    node.print(vec![Case { name: slug("named by itself"), pod, prints }]).await;

    // Paths outside of the volume are rejected.
    for (name, value) in [("absolute path", "/tmp"), ("backticks", "..")] {
        let env = json!([{"name": "POD_NAME", "value": value}]);
        node.make(&slug(name), mounts("$(POD_NAME)", &env)).await;
    }
    // A missing annotation leaves an absolute path.
    let env = json!([field("PART", "metadata.annotations['part']")]);
    node.make(&slug("mended later"), mounts("$(PART)/x", &env)).await;
    for name in ["absolute path", "backticks", "mended later"] {
        let refused = |pod: &tests::Pod| pod.waiting("main") == "CreateContainerConfigError";
        node.until(&slug(name), "to be refused", refused).await;
    }
    let note = json!({"metadata": {"annotations": {"part": "mypath"}}});
    node.cluster.patch(&crate::node::path(&slug("mended later")), &note).await.is(200);
    node.ready(&slug("mended later")).await;

    // Files in the mounted part are in the volume, and the mount does not move when the variable changes.
    let name = slug("mended later");
    node.exec(&name, "main", &["touch", "/part/test.log"]).await;
    node.exec(&name, "main", &["test", "-f", "/whole/mypath/x/test.log"]).await;
    let note = json!({"metadata": {"annotations": {"part": "mynewpath"}}});
    node.cluster.patch(&crate::node::path(&name), &note).await.is(200);
    node.exec(&name, "main", &["test", "-f", "/part/test.log"]).await;
    assert_eq!(node.ready(&name).await.restarts("main"), 0);
}
