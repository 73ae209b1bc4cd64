//! Protects a root directory from a change of the node name. A kubelet with another name does not find the
//! containers of the old name, and would treat their pods as gone.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context as _;

use crate::node;
use crate::observed::PodUid;
use crate::options::Options;
use crate::pod_workers;
use crate::runtime::docker::{self, Docker};
use crate::runtime::{Listed, Runtime as _};
use crate::volumes::Volumes;

/// Checks that the engine has no pods of this directory under a previous node name, and saves the name. The engine
/// is not queried if the name is unchanged or no pod is on disk.
///
/// # Errors
/// If there are such pods, the engine does not answer, or the new name cannot be saved in place of another.
pub(super) async fn check_name(options: &Options, settings: &docker::Settings) -> anyhow::Result<()> {
    let Options { root_dir, node_name, docker_endpoint, .. } = options;
    let kept = node::kept_name(root_dir)
        .with_context(|| format!("cannot read the node name of {}", root_dir.display()))?;
    if kept.as_ref() == Some(node_name) {
        return Ok(());
    }
    let here: BTreeSet<PodUid> = Volumes::new(root_dir)
        .on_disk()
        .with_context(|| format!("cannot list the pods of {}", root_dir.display()))?
        .into_iter()
        .collect();
    // Without pods on disk, no container belongs to this directory.
    let mut before = match &kept {
        _ if here.is_empty() => BTreeSet::new(),
        Some(name) => BTreeSet::from([name.clone()]),
        None => pod_workers::nodes(root_dir).await,
    };
    before.remove(node_name);
    for name in before {
        let listed = Docker::connect(docker_endpoint, &name, settings.clone())?.list().await;
        let left = match &listed {
            Ok(listed) => match what_is_left(listed, &here) {
                Some(left) => left,
                None => continue,
            },
            Err(error) => format!("it is unknown whether any of its pods are left, because {error}"),
        };
        let root_dir = root_dir.display();
        anyhow::bail!(
            "{root_dir} belongs to node {name}, but this kubelet is node {node_name}: {left}, and with another \
             node name they would lose their volumes and addresses; start it with --hostname-override {name}, or \
             remove those pods first (docker ps -a --filter label=io.kubernetes.node.name={name}), or give node \
             {node_name} another --root-dir"
        );
    }
    keep(root_dir, node_name, kept.as_deref())
}

/// Saves the node name. Without a saved name, the next start derives the name from checkpoints. A wrong saved name
/// would be harmful, so its replacement must succeed.
fn keep(root_dir: &Path, node_name: &str, before: Option<&str>) -> anyhow::Result<()> {
    let Err(error) = node::keep_name(root_dir, node_name) else { return Ok(()) };
    let directory = root_dir.display();
    if let Some(before) = before {
        return Err(error).with_context(|| {
            format!(
                "cannot save in {directory} that it belongs to node {node_name} now; a kubelet that starts there as node {before} \
                 would lose the pods of this one: free disk space and make the directory writable, or start the kubelet with \
                 --hostname-override {before}"
            )
        });
    }
    tracing::warn!(root_dir = %directory, %error, "cannot save the node name of this directory");
    Ok(())
}

/// Describes the remaining pods that are also on disk (`here`). `None` if there are none. Other pods of the old
/// node name belong to another root directory.
fn what_is_left(listed: &[Listed], here: &BTreeSet<PodUid>) -> Option<String> {
    let listed = || listed.iter().filter(|listed| here.contains(&listed.identity.uid));
    let pods = |found: &mut dyn Iterator<Item = &Listed>| {
        found.map(|listed| &listed.identity.uid).collect::<BTreeSet<&PodUid>>().len()
    };
    let running = pods(&mut listed().filter(|listed| listed.running));
    let all = pods(&mut listed());
    Some(match (running, all) {
        (0, 0) => return None,
        (0, 1) => "1 of its pods is left in the engine and does not run".to_owned(),
        (0, all) => format!("{all} of its pods are left in the engine and do not run"),
        (1, _) => "1 of its pods still runs".to_owned(),
        (running, _) => format!("{running} of its pods still run"),
    })
}

#[cfg(test)]
mod tests {
    //! Tests of counting of remaining pods, and saving of the new name.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::runtime::Identity;

    #[test]
    fn rename_check_counts_pods_not_containers() {
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
        let here = ["a", "b", "c"].into_iter().map(PodUid::new).collect();
        for (listed, expected) in [
            (vec![of("a", up), of("a", down)], "1 of its pods still runs"),
            (vec![of("a", up), of("of another directory", up)], "1 of its pods still runs"),
            (vec![of("a", up), of("b", up), of("b", up), of("c", down)], "2 of its pods still run"),
            (vec![of("a", down), of("a", down)], "1 of its pods is left in the engine and does not run"),
            (vec![of("a", down), of("b", down)], "2 of its pods are left in the engine and do not run"),
        ] {
            assert_eq!(what_is_left(&listed, &here).as_deref(), Some(expected));
        }
        assert_eq!(what_is_left(&[of("of another directory", up)], &here), None);
        assert_eq!(what_is_left(&[], &here), None);
    }

    #[test]
    fn node_rename_fails_if_the_new_name_cannot_be_stored() {
        let folder = tempfile::tempdir().unwrap();
        keep(folder.path(), "new", Some("old")).unwrap();
        assert_eq!(node::kept_name(folder.path()).unwrap().as_deref(), Some("new"));
        let gone = folder.path().join("gone");
        keep(&gone, "new", None).unwrap();
        let why = keep(&gone, "new", Some("old")).unwrap_err().to_string();
        let has_all_words = [&*gone.to_string_lossy(), "node new", "--hostname-override old"];
        assert!(has_all_words.iter().all(|expected| why.contains(expected)), "{why}");
    }
}
