//! Volumes on a real disk, below a directory of their own.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use api::references::References;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{Error, Volumes, Wanted};
use crate::observed::PodUid;
use crate::runtime::spec::Mount;
use crate::spec::env::Sources;
use crate::spec::{Environment, Facts};

/// A pod and the place its volumes go to.
pub(super) struct Fixture {
    pub root: tempfile::TempDir,
    pub volumes: Volumes,
    pub uid: PodUid,
    pub pod: Pod,
    pub references: References,
    pub facts: Facts,
}

impl Fixture {
    pub fn new(spec: Value) -> Self {
        let root = tempfile::tempdir().unwrap();
        let pod = json!({"metadata": {"name": "p", "namespace": "default", "uid": "u-1"}, "spec": spec});
        Self {
            volumes: Volumes::new(root.path()),
            root,
            uid: PodUid::new("u-1"),
            pod: serde_json::from_value(pod).unwrap(),
            references: References::default(),
            facts: Facts::default(),
        }
    }

    pub fn wanted(&self) -> Wanted<'_> {
        Wanted { uid: &self.uid, pod: &self.pod, references: &self.references, facts: &self.facts }
    }

    pub fn volume(&self, plugin: &str, name: &str) -> PathBuf {
        self.root.path().join(format!("pods/u-1/volumes/kubernetes.io~{plugin}/{name}"))
    }

    pub async fn mount(&self) -> Result<(), Error> {
        self.volumes.mount(&self.wanted()).await
    }

    pub async fn mounts(&self) -> Result<Vec<Mount>, Error> {
        let container = &self.pod.spec.as_ref().unwrap().containers[0];
        let sources =
            Sources { pod: &self.pod, facts: &self.facts, pod_ips: &[], references: &self.references };
        let environment = Environment::of(&sources, container).unwrap();
        self.volumes.container_mounts(&self.wanted(), container, &environment).await
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn a_pod_comes_and_goes() {
    let host = tempfile::tempdir().unwrap();
    std::fs::write(host.path().join("kept"), "x").unwrap();
    let fixture = Fixture::new(json!({
        "containers": [{"name": "c", "volumeMounts": [
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "host", "mountPath": "host", "readOnly": true, "mountPropagation": "HostToContainer"}]}],
        "volumes": [
            {"name": "scratch", "emptyDir": {}},
            {"name": "host", "hostPath": {"path": host.path(), "type": "Directory"}}]
    }));
    fixture.mount().await.unwrap();
    fixture.mount().await.unwrap();
    let scratch = fixture.volume("empty-dir", "scratch");
    assert_eq!(mode(&scratch), 0o777);
    assert_eq!(
        fixture.mounts().await.unwrap(),
        [
            Mount {
                source: scratch.display().to_string(),
                target: "/scratch".into(),
                read_only: false,
                propagation: "rprivate".into()
            },
            Mount {
                source: host.path().display().to_string(),
                target: "/host".into(),
                read_only: true,
                propagation: "rslave".into()
            },
        ]
    );
    let last_words = fixture.volumes.termination_file(&fixture.uid, "c", 0).await.unwrap();
    assert_eq!(mode(&last_words), 0o666);
    assert_eq!(fixture.volumes.on_disk().unwrap(), std::slice::from_ref(&fixture.uid));

    std::os::unix::fs::symlink(host.path(), scratch.join("way-out")).unwrap();
    fixture.volumes.unmount(&fixture.uid).await.unwrap();
    fixture.volumes.unmount(&fixture.uid).await.unwrap();
    assert_eq!(fixture.volumes.on_disk().unwrap(), []);
    assert!(host.path().join("kept").exists());
}

#[tokio::test]
async fn a_group_owns_its_empty_dir() {
    let fixture = Fixture::new(json!({
        "securityContext": {"fsGroup": 2000},
        "containers": [],
        "volumes": [{"name": "scratch", "emptyDir": {}}]
    }));
    fixture.mount().await.unwrap();
    let scratch = fixture.volume("empty-dir", "scratch");
    assert_eq!(mode(&scratch), 0o2777);
    assert_eq!(std::fs::metadata(&scratch).unwrap().gid(), 2000);
}

#[tokio::test]
async fn host_paths_are_what_their_type_says() {
    let host = tempfile::tempdir().unwrap();
    let path = |name: &str| host.path().join(name).display().to_string();
    std::fs::create_dir(path("dir")).unwrap();
    std::fs::write(path("file"), "").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    for (name, kind, refusal) in [
        ("dir", "", None),
        ("dir", "Directory", None),
        ("file", "File", None),
        ("socket", "Socket", None),
        ("dir", "DirectoryOrCreate", None),
        ("file", "FileOrCreate", None),
        ("new/deep", "DirectoryOrCreate", None),
        ("new/file", "FileOrCreate", None),
        ("made", "", None),
        ("file", "Directory", Some("is not a directory, it is a File")),
        ("dir", "FileOrCreate", Some("is not a file, it is a Directory")),
        ("file", "Socket", Some("is not a socket file, it is a File")),
        ("dir", "CharDevice", Some("is not a character device, it is a Directory")),
        ("gone", "File", Some("is not there")),
        ("gone", "Directory", Some("is not there")),
        ("no/such/file", "FileOrCreate", Some("its directory must be there")),
        ("../x", "", Some("invalid HostPath")),
    ] {
        let fixture = Fixture::new(json!({
            "containers": [], "volumes": [{"name": "v", "hostPath": {"path": path(name), "type": kind}}]
        }));
        let result = fixture.mount().await;
        match refusal {
            None => assert_eq!(result, Ok(()), "{name} {kind}"),
            Some(words) => {
                let error = result.unwrap_err();
                assert!(error.message.contains(words), "{name} {kind}: {error}");
                assert_eq!((error.volume.as_str(), error.reason), ("v", "FailedMount"));
            }
        }
    }
    assert_eq!((mode(path("made").as_ref()), mode(path("new/file").as_ref())), (0o755, 0o644));
}
