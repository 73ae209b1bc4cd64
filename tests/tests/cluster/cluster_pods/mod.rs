//! A real node of a real master: static pods and assigned pods, their configuration, and their reported status.

mod attached;
mod ending;
mod events;
mod given;
mod leaving;
mod mirrors;
mod tokens;

use std::fs;

use serde_json::Value;
use tests::manifest::pod;
use tests::{Master, Pod, World};

/// A master without a scheduler, and a node that has joined it.
pub async fn joined(name: &str) -> (Master, World) {
    joined_with(name, "--scheduler=false").await
}

/// A master with this flag, and a node that has joined it.
pub async fn joined_with(name: &str, flag: &str) -> (Master, World) {
    let flags = ["--advertise-address", "127.0.0.1", "--csr-approval-policy=insecure-always-approve", flag];
    let mut master = Master::new().with_flags(flags);
    master.start().await;
    let line = master.join_line().await;
    let mut world =
        World::new(name).await.with_flags(["--node-ip", "127.0.0.1", "--bootstrap", line.as_str()]);
    world.start().await;
    let look = async || {
        let node = get(&master, &format!("/api/v1/nodes/{}", world.node)).await?;
        let account = get(&master, "/api/v1/namespaces/default/serviceaccounts/default").await?;
        if Pod(node.clone()).is_ready() { Ok(()) } else { Err(format!("{node} {account}")) }
    };
    world.wait_for("the node to be Ready at the master", look).await;
    // kubectl needs it for logs and commands of pods.
    let serving = world.root_dir().join("pki/kubelet-server-current.pem");
    let is_there = async || if serving.exists() { Ok(()) } else { Err("it is not there".to_owned()) };
    world.wait_for("the serving certificate of the node", is_there).await;
    (master, world)
}

/// Reads an object or a list from the master.
pub async fn get(master: &Master, path: &str) -> Result<Value, String> {
    match master.get_as_admin(path).await {
        (200, text) => serde_json::from_str(&text).map_err(|error| error.to_string()),
        (code, text) => Err(format!("{code} {text}")),
    }
}

/// Runs kubectl as the administrator.
pub async fn kubectl(master: &Master, arguments: &[&str]) -> String {
    let output = master.kubectl(&master.data_dir().join("admin.kubeconfig"), arguments).await;
    assert_eq!(output.code, 0, "kubectl {arguments:?}: {output:?}\n{}", master.log());
    output.stdout
}

pub async fn apply(master: &Master, world: &World, manifest: &str) {
    let path = world.path("applied.yaml");
    fs::write(&path, manifest).unwrap();
    kubectl(master, &["apply", "-f", path.to_str().unwrap()]).await;
}

/// A pod bound to the node, with the name that a static pod of that name would have.
pub fn bound(world: &World, name: &str, spec: &str) -> String {
    let spec = format!("nodeName: {}\n{spec}", world.node);
    pod(&world.pod_name(name), &spec)
}

/// Waits until the pod at the master satisfies the condition.
pub async fn at_master(
    world: &World,
    master: &Master,
    name: &str,
    what: &str,
    holds: impl Fn(&Pod) -> bool,
) -> Pod {
    let path = format!("/api/v1/namespaces/default/pods/{}", world.pod_name(name));
    let look = async || {
        let pod = Pod(get(master, &path).await?);
        if holds(&pod) { Ok(pod) } else { Err(format!("it is {}", pod.0)) }
    };
    world.wait_for(&format!("{name} at the master: {what}"), look).await
}

/// Waits until the master no longer has the pod.
pub async fn gone_from_master(world: &World, master: &Master, name: &str) {
    let path = format!("/api/v1/namespaces/default/pods/{}", world.pod_name(name));
    let look = async || match get(master, &path).await {
        Err(why) if why.starts_with("404") => Ok(()),
        other => Err(format!("{other:?}")),
    };
    world.wait_for(&format!("{name} to go from the API"), look).await;
}
