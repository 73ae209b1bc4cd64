//! Permissions of a pod's processes: users, groups, privileges, file systems, kernel parameters.

use serde_json::{Value, json};

use crate::node::{Case, Node, shell, slug, with};

fn case(name: &str, script: &str, pod: &Value, container: &Value, prints: &str) -> Case {
    let main = with(shell(script), &json!({"securityContext": container}));
    let spec = with(json!({"containers": [main]}), &json!({"securityContext": pod}));
    Case { name: slug(name), pod: json!({"spec": spec}), prints: prints.to_owned() }
}

#[tokio::test]
async fn security_context_sets_user_and_privileges() {
    let node = Node::running("rights").await;
    let none = json!(null);
    let both = json!({"runAsUser": 1001, "runAsGroup": 2002});
    let link = "ip link add dummy0 type dummy 2>&1 | grep -o 'Operation not permitted'";
    let write = "if (echo x >/file) 2>/dev/null; then echo written; else echo refused; fi";
    // A setuid root program keeps the user of its caller.
    let mut suid = case(
        "no escalation",
        "grep NoNewPrivs /proc/self/status | tr -d '\\t'; /v/cat /v/secret 2>&1 || true",
        &json!({"runAsUser": 1000}),
        &json!({"allowPrivilegeEscalation": false}),
        "NoNewPrivs:1\ncat: can't open '/v/secret': Permission denied",
    );
    let mount = json!([{"name": "v", "mountPath": "/v"}]);
    let prepare = "cp /bin/busybox /v/cat; chmod 4755 /v/cat; echo secret >/v/secret; chmod 600 /v/secret";
    let init = with(
        shell(prepare),
        &json!({"name": "prepare", "volumeMounts": mount, "securityContext": {"runAsUser": 0}}),
    );
    suid.pod["spec"]["initContainers"] = json!([init]);
    suid.pod["spec"]["containers"][0]["volumeMounts"] = mount;
    suid.pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    node.print(vec![
        case("user 65534", "id -u", &none, &json!({"runAsUser": 65534}), "65534"),
        case("user and group of the container", "id -u; id -g", &none, &both, "1001\n2002"),
        case("user and group of the pod", "id -u; id -g", &both, &none, "1001\n2002"),
        case("unprivileged", link, &none, &json!({"privileged": false}), "Operation not permitted"),
        case("writable", write, &none, &json!({"readOnlyRootFilesystem": false}), "written"),
        case("read-only", write, &none, &json!({"readOnlyRootFilesystem": true}), "refused"),
        suid,
    ])
    .await;
}

#[tokio::test]
async fn sysctls_are_set_and_validated() {
    let node = Node::running("sysctls").await;
    let sysctls = |names: &[&str]| {
        let all: Vec<Value> = names.iter().map(|name| json!({"name": name, "value": "1"})).collect();
        json!({"sysctls": all})
    };
    let safe = sysctls(&["kernel.shm_rmid_forced"]);
    let wrong = case(
        "wrong",
        "true",
        &sysctls(&["foo-", "kernel.shmmax", "safe-and-unsafe", "bar.."]),
        &json!(null),
        "",
    );
    let refused = node.try_to_make("wrong", wrong.pod).await;
    for name in ["foo-", "bar.."] {
        refused.refuses(422, &format!("Invalid value: \"{name}\""));
    }
    assert!(!refused.has_text("safe-and-unsafe") && !refused.has_text("kernel.shmmax"), "{}", refused.text);
    let script = "cat /proc/sys/kernel/shm_rmid_forced";
    node.print(vec![case("shm rmid forced", script, &safe, &json!(null), "1")]).await;
}
