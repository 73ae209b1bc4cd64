//! Volumes of pods: files of ConfigMaps, Secrets and the downward API, and emptyDir volumes.

use serde_json::{Value, json};

use crate::node::{Case, Node, shell, slug, with};

/// The kinds of volumes that show an object's keys as files.
const KINDS: [&str; 4] = ["configMap", "secret", "projected configMap", "projected secret"];

/// A volume `v` of that kind with the keys of the object `name`.
fn volume(kind: &str, name: &str, fields: &Value) -> Value {
    let named = |kind: &str| if kind == "secret" { "secretName" } else { "name" };
    match kind.split_once(' ') {
        None => json!({"name": "v", kind: with(json!({named(kind): name}), fields)}),
        Some((around, kind)) => {
            let source = with(json!({"name": name}), &json!({"items": fields["items"]}));
            let all =
                with(json!({"sources": [{kind: source}]}), &json!({"defaultMode": fields["defaultMode"]}));
            json!({"name": "v", around: all})
        }
    }
}

/// A pod that runs a script with that volume at `/v`.
fn shows(volume: Value, script: &str, security: &Value) -> Value {
    let main = with(shell(script), &json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}));
    json!({"spec": with(json!({"containers": [main], "volumes": [volume]}), &json!({"securityContext": security}))})
}

/// Creates a ConfigMap and a Secret with this name and the same keys.
async fn objects(node: &Node, namespace: &str, name: &str, data: &Value) {
    for (kind, field) in [("configmaps", "data"), ("secrets", "stringData")] {
        let path = format!("/api/v1/namespaces/{namespace}/{kind}");
        node.cluster.post(&path, &json!({"metadata": {"name": name}, field: data})).await.is(201);
    }
}

#[tokio::test]
async fn config_map_and_secret_keys_are_mounted_as_files() {
    let node = Node::running("keys").await;
    node.cluster.namespace("elsewhere").await;
    objects(&node, "default", "conf", &json!({"data-1": "value-1", "data-2": "value-2"})).await;
    objects(&node, "elsewhere", "conf", &json!({"data-1": "another"})).await;
    let moved = json!([{"key": "data-2", "path": "path/to/data-2"}]);
    let closed = json!([{"key": "data-2", "path": "path/to/data-2", "mode": 0o400}]);
    let (none, unprivileged) = (json!(null), json!({"runAsUser": 1000}));
    let group = json!({"runAsUser": 1000, "fsGroup": 1001});
    let (mode, group_mode) = (json!({"defaultMode": 0o400}), json!({"defaultMode": 0o440}));
    let (plain, items, item_mode) = (json!({}), json!({"items": moved}), json!({"items": closed}));
    let first = "cat /v/data-1; stat -Lc ' %a' /v/data-1; id -u";
    let second = "cat /v/path/to/data-2; stat -Lc ' %a' /v/path/to/data-2; ls /v; id -u";
    let table = [
        ("plain", &plain, &none, first, "value-1 644\n0"),
        ("not root", &plain, &unprivileged, first, "value-1 644\n1000"),
        ("default mode", &mode, &none, first, "value-1 400\n0"),
        ("mappings", &items, &none, second, "value-2 644\npath\n0"),
        ("mappings, not root", &items, &unprivileged, second, "value-2 644\npath\n1000"),
        ("mode of an item", &item_mode, &none, second, "value-2 400\npath\n0"),
        (
            "group",
            &group_mode,
            &group,
            "cat /v/data-1; stat -Lc ' %a %g' /v/data-1; id -u",
            "value-1 440 1001\n1000",
        ),
    ];
    let mut cases = Vec::new();
    for kind in KINDS {
        for (name, fields, security, script, prints) in table {
            let pod = shows(volume(kind, "conf", fields), script, security);
            cases.push(Case { name: slug(&format!("{kind} {name}")), pod, prints: prints.to_owned() });
        }
        let two = "cat /v/data-1 /w/data-1";
        let mut pod = shows(volume(kind, "conf", &plain), two, &none);
        let other = with(volume(kind, "conf", &plain), &json!({"name": "w"}));
        pod["spec"]["volumes"].as_array_mut().unwrap().push(other);
        let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap();
        mounts.push(json!({"name": "w", "mountPath": "/w"}));
        let name = slug(&format!("{kind} {}", "two volumes"));
        cases.push(Case { name, pod, prints: "value-1value-1".to_owned() });
    }
    let pod = shows(volume("secret", "conf", &plain), "cat /v/data-1", &none);
    let name = format!("elsewhere/{}", slug("another namespace"));
    cases.push(Case { name, pod, prints: "another".to_owned() });
    node.print(cases).await;
}

#[tokio::test]
async fn downward_api_volumes_have_the_fields_of_the_pod() {
    let node = Node::running("told").await;
    objects(&node, "default", "conf", &json!({"data-1": "value-1"})).await;
    let allocatable = node.object().await["status"]["allocatable"].clone();
    let (cores, bytes) = amounts(&allocatable);
    let field = |path: &str| json!({"path": "podname", "fieldRef": {"fieldPath": path}});
    let amount =
        |of: &str| json!({"path": slug(of), "resourceFieldRef": {"containerName": "main", "resource": of}});
    let amounts = ["limits.cpu", "requests.cpu", "limits.memory", "requests.memory"].map(amount);
    let resources =
        json!({"limits": {"cpu": "1250m", "memory": "64Mi"}, "requests": {"cpu": "250m", "memory": "32Mi"}});
    let name = field("metadata.name");
    let all = "for f in limits-cpu requests-cpu limits-memory requests-memory; do cat /v/$f; echo; done";
    let limits = "for f in limits-cpu limits-memory; do cat /v/$f; echo; done";
    let one = "cat /v/podname; stat -Lc ' %a' /v/podname";
    let mut cases = Vec::new();
    for kind in ["downwardAPI", "projected downwardAPI"] {
        let volume = |fields: Value| match kind.split_once(' ') {
            None => json!({"name": "v", kind: fields}),
            Some((around, kind)) => {
                let source = json!({"items": fields["items"]});
                let mode = json!({"defaultMode": fields["defaultMode"]});
                json!({"name": "v", around: with(json!({"sources": [{kind: source}]}), &mode)})
            }
        };
        let own = "{/metadata/name}";
        let mut table = vec![
            ("name", volume(json!({"items": [name]})), one, format!("{own} 644")),
            (
                "default mode",
                volume(json!({"items": [name], "defaultMode": 0o400})),
                one,
                format!("{own} 400"),
            ),
            (
                "mode of an item",
                volume(json!({"items": [with(name.clone(), &json!({"mode": 0o400}))]})),
                one,
                format!("{own} 400"),
            ),
            ("amounts", volume(json!({"items": amounts})), all, "2\n1\n67108864\n33554432".to_owned()),
            (
                "amounts of the node",
                volume(json!({"items": [amounts[0], amounts[2]]})),
                limits,
                format!("{cores}\n{bytes}"),
            ),
        ];
        for (name, volume, script, prints) in table.drain(..) {
            let mut pod = shows(volume, script, &json!(null));
            if name == "amounts" {
                pod["spec"]["containers"][0]["resources"] = resources.clone();
            }
            cases.push(Case { name: slug(&format!("{kind} {name}")), pod, prints });
        }
    }
    let sources = json!([{"configMap": {"name": "conf", "items": [{"key": "data-1", "path": "map"}]}},
        {"secret": {"name": "conf", "items": [{"key": "data-1", "path": "secret"}]}},
        {"downwardAPI": {"items": [name]}}]);
    let pod = shows(
        json!({"name": "v", "projected": {"sources": sources}}),
        "cat /v/map /v/secret /v/podname",
        &json!(null),
    );
    cases.push(Case { name: slug("all in one"), pod, prints: "value-1value-1{/metadata/name}".to_owned() });
    node.print(cases).await;
}

/// The allocatable CPU cores and memory bytes of a node.
pub fn amounts(allocatable: &Value) -> (i64, i64) {
    let text = |field: &str| allocatable[field].as_str().unwrap();
    let memory = text("memory");
    let bytes = match memory.strip_suffix("Ki") {
        Some(kibi) => kibi.parse::<i64>().unwrap() * 1024,
        None => memory.parse().unwrap(),
    };
    (text("cpu").parse().unwrap(), bytes)
}

#[tokio::test]
async fn empty_dirs_have_the_requested_medium_and_mode() {
    let node = Node::running("room").await;
    let modes = "for m in 644 666 777; do umask 0; echo is >/v/$m; chmod $m /v/$m; stat -c '%a %u' /v/$m; cat /v/$m; done; \
                 stat -c 'room %a' /v; if grep -q ' /v tmpfs ' /proc/mounts; then echo memory; else echo disk; fi";
    let (none, unprivileged) = (json!(null), json!({"runAsUser": 1001}));
    let mut cases = Vec::new();
    for (name, medium, security, user, is) in [
        ("root, disk", "", &none, 0, "disk"),
        ("root, memory", "Memory", &none, 0, "memory"),
        ("not root, disk", "", &unprivileged, 1001, "disk"),
        ("not root, memory", "Memory", &unprivileged, 1001, "memory"),
    ] {
        let pod = shows(json!({"name": "v", "emptyDir": {"medium": medium}}), modes, security);
        let prints = format!("644 {user}\nis\n666 {user}\nis\n777 {user}\nis\nroom 777\n{is}");
        cases.push(Case { name: slug(name), pod, prints });
    }
    let mut pod = shows(
        json!({"name": "v", "emptyDir": {}}),
        "until [ -s /v/file ]; do usleep 50000; done; cat /v/file",
        &none,
    );
    let mut side = pod["spec"]["containers"][0].clone();
    side["name"] = json!("side");
    side["command"][2] = json!("echo shared >/v/new; mv /v/new /v/file");
    pod["spec"]["containers"].as_array_mut().unwrap().push(side);
    cases.push(Case { name: slug("two containers"), pod, prints: "shared".to_owned() });
    node.print(cases).await;
}

#[tokio::test]
async fn sub_paths_and_many_volumes_are_mounted() {
    let node = Node::running("parts").await;
    objects(&node, "default", "conf", &json!({"data-1": "value-1"})).await;
    let own = json!({"items": [{"path": "data-1", "fieldRef": {"fieldPath": "metadata.name"}}]});
    let both = json!({"sources": [{"configMap": {"name": "conf"}}]});
    let mut cases = Vec::new();
    for (name, source, place, prints) in [
        ("configMap", json!({"configMap": {"name": "conf"}}), "/t/file", "value-1"),
        ("existing file", json!({"configMap": {"name": "conf"}}), "/etc/resolv.conf", "value-1"),
        ("downwardAPI", json!({"downwardAPI": own}), "/t/file", "{/metadata/name}"),
        ("projected", json!({"projected": both}), "/t/file", "value-1"),
        ("secret", json!({"secret": {"secretName": "conf"}}), "/t/file", "value-1"),
    ] {
        let mount = json!({"name": "v", "mountPath": place, "subPath": "data-1"});
        let main = with(shell(&format!("cat {place}")), &json!({"volumeMounts": [mount]}));
        let pod = json!({"spec": {"containers": [main], "volumes": [with(json!({"name": "v"}), &source)]}});
        cases.push(Case { name: slug(&format!("part {name}")), pod, prints: prints.to_owned() });
    }

    // A Secret and a ConfigMap with the same name do not conflict.
    let volumes = json!([{"name": "s", "secret": {"secretName": "conf"}}, {"name": "c", "configMap": {"name": "conf"}}]);
    let mounts = json!([{"name": "s", "mountPath": "/s"}, {"name": "c", "mountPath": "/c"}]);
    let main = with(shell("cat /s/data-1 /c/data-1"), &json!({"volumeMounts": mounts}));
    let pod = json!({"spec": {"containers": [main], "volumes": volumes}});
    cases.push(Case { name: slug("side by side"), pod, prints: "value-1value-1".to_owned() });

    // Fifty ConfigMap volumes in each of five pods do not conflict either.
    let names: Vec<String> = (0..50).map(|n| format!("many-{n}")).collect();
    for name in &names {
        let map = json!({"metadata": {"name": name}, "data": {"data-1": "."}});
        node.cluster.post("/api/v1/namespaces/default/configmaps", &map).await.is(201);
    }
    let volumes: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "configMap": {"name": name}})).collect();
    let mounts: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "mountPath": format!("/many/{name}")})).collect();
    let main = with(shell("cat /many/*/data-1 | wc -c"), &json!({"volumeMounts": mounts}));
    for n in 0..5 {
        let pod = json!({"spec": {"containers": [main], "volumes": volumes}});
        cases.push(Case { name: slug(&format!("{} {n}", "fifty")), pod, prints: "50".to_owned() });
    }
    node.print(cases).await;
}
