//! A directory goes with the name of its node. A kubelet of another name sees none of the containers that were made under the old
//! one, and would take what lies there for that of pods that are gone.

use std::collections::BTreeSet;

use anyhow::Context as _;

use crate::node;
use crate::observed::PodUid;
use crate::options::Options;
use crate::runtime::docker::{self, Docker};
use crate::runtime::{Listed, Runtime as _};
use crate::worker;

/// Sees to it that the engine has no pods of another name that this directory was of, and keeps the name for the next start. Of the
/// same name the engine is not asked.
///
/// # Errors
/// When there are such pods, or nobody can say whether there are any.
pub(super) async fn settle(options: &Options, settings: &docker::Settings) -> anyhow::Result<()> {
    let Options { root_dir, node_name, docker_endpoint, .. } = options;
    let kept = node::kept_name(root_dir)
        .with_context(|| format!("cannot read which node {} is of", root_dir.display()))?;
    if kept.as_ref() == Some(node_name) {
        return Ok(());
    }
    let mut before = match kept {
        Some(name) => BTreeSet::from([name]),
        None => worker::nodes(root_dir).await,
    };
    before.remove(node_name);
    for name in before {
        let listed = Docker::connect(docker_endpoint, &name, settings.clone())?.list().await;
        let left = match &listed {
            Ok(listed) if listed.is_empty() => continue,
            Ok(listed) => what_is_left(listed),
            Err(error) => format!("whether any of its pods are left nobody can say, because {error}"),
        };
        let root_dir = root_dir.display();
        anyhow::bail!(
            "{root_dir} is of node {name}, and this kubelet is to be node {node_name}: {left}, and under another name they would \
             lose their volumes and addresses; start it with --hostname-override {name}, or end those pods first (docker ps -a \
             --filter label=io.kubernetes.node.name={name}), or give node {node_name} another --root-dir"
        );
    }
    if let Err(error) = node::keep_name(root_dir, node_name) {
        let root_dir = root_dir.display();
        tracing::warn!(%root_dir, %error, "cannot write down which node this directory is of");
    }
    Ok(())
}

/// How many pods, and whether they run.
fn what_is_left(listed: &[Listed]) -> String {
    let pods = |found: &mut dyn Iterator<Item = &Listed>| {
        found.map(|listed| &listed.identity.uid).collect::<BTreeSet<&PodUid>>().len()
    };
    let running = pods(&mut listed.iter().filter(|listed| listed.running));
    let all = pods(&mut listed.iter());
    match (running, all) {
        (0, 1) => "1 of its pods is left in the engine and does not run".to_owned(),
        (0, all) => format!("{all} of its pods are left in the engine and do not run"),
        (1, _) => "1 of its pods still runs".to_owned(),
        (running, _) => format!("{running} of its pods still run"),
    }
}

#[cfg(test)]
mod tests {
    //! What is said of pods that are left.
    use super::*;
    use crate::runtime::Identity;

    #[test]
    fn pods_are_counted_and_not_their_containers() {
        let of = |uid: &str, running: bool| Listed {
            id: String::new(),
            identity: Identity {
                uid: PodUid::new(uid),
                pod: "p".to_owned(),
                namespace: "default".to_owned(),
                container: "main".to_owned(),
                attempt: 0,
                hash: String::new(),
            },
            running,
            state: String::new(),
        };
        let (up, down) = (true, false);
        for (listed, said) in [
            (vec![of("a", up), of("a", down)], "1 of its pods still runs"),
            (vec![of("a", up), of("b", up), of("b", up), of("c", down)], "2 of its pods still run"),
            (vec![of("a", down), of("a", down)], "1 of its pods is left in the engine and does not run"),
            (vec![of("a", down), of("b", down)], "2 of its pods are left in the engine and do not run"),
        ] {
            assert_eq!(what_is_left(&listed), said);
        }
    }
}
