//! Volumes on a real disk.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::references::{ClaimKey, ClaimState, PodClaim, References};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{Error, Refreshed, VolumeInput, Volumes, mounting};
use crate::observed::PodUid;
use crate::runtime::spec::Mount;
use crate::spec::env::Sources;
use crate::spec::{Environment, Facts, Note};

impl Drop for Fixture {
    /// Unmounts everything, even after a failed test.
    fn drop(&mut self) {
        let _ = super::teardown::remove(&self.root.path().join("pods"));
    }
}

/// A pod and the directory of its volumes.
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

    pub fn wanted(&self) -> VolumeInput<'_> {
        VolumeInput { uid: &self.uid, pod: &self.pod, references: &self.references, facts: &self.facts }
    }

    pub async fn refresh(&self) -> Refreshed {
        self.volumes.refresh(&self.wanted()).await.unwrap()
    }

    pub fn config_map(&mut self, name: &str, map: Value) {
        let key = ("default".to_owned(), name.to_owned());
        self.references.config_maps.insert(key, Arc::new(serde_json::from_value(map).unwrap()));
    }

    pub fn secret(&mut self, name: &str, secret: Value) {
        let key = ("default".to_owned(), name.to_owned());
        self.references.secrets.insert(key, Arc::new(serde_json::from_value(secret).unwrap()));
    }

    pub fn claim(&mut self, claim: &str, state: ClaimState) {
        let key = ClaimKey { pod_uid: "u-1".to_owned(), claim: claim.to_owned() };
        let claim = PodClaim { metadata: Default::default(), key: key.clone(), state };
        self.references.claims.insert(key, Arc::new(claim));
    }

    pub fn volume(&self, plugin: &str, name: &str) -> PathBuf {
        self.root.path().join(format!("pods/u-1/volumes/kubernetes.io~{plugin}/{name}"))
    }

    pub async fn mount(&self) -> Result<Vec<Note>, Error> {
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
async fn volumes_are_created_and_removed_with_their_pod() {
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
async fn empty_dir_belongs_to_the_fs_group() {
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
async fn host_path_type_is_checked() {
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
        ("gone", "File", Some("does not exist")),
        ("gone", "Directory", Some("does not exist")),
        ("no/such/file", "FileOrCreate", Some("its directory must exist")),
        ("../x", "", Some("invalid HostPath")),
    ] {
        let fixture = Fixture::new(json!({
            "containers": [], "volumes": [{"name": "v", "hostPath": {"path": path(name), "type": kind}}]
        }));
        let result = fixture.mount().await;
        match refusal {
            None => assert_eq!(result, Ok(Vec::new()), "{name} {kind}"),
            Some(words) => {
                let error = result.unwrap_err();
                assert!(error.message.contains(words), "{name} {kind}: {error}");
                assert_eq!((error.volume.as_str(), error.reason), ("v", "FailedMount"));
            }
        }
    }
    assert_eq!((mode(path("made").as_ref()), mode(path("new/file").as_ref())), (0o755, 0o644));
}

#[tokio::test]
async fn memory_empty_dir_is_a_tmpfs_with_its_size_limit() {
    let fixture = Fixture::new(json!({
        "containers": [{"name": "c", "resources": {"limits": {"memory": "2Mi"}}}],
        "volumes": [
            {"name": "small", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "large", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {"name": "plain", "emptyDir": {"medium": "Memory"}}]
    }));
    assert_eq!(fixture.mount().await.unwrap(), []);
    let blocks = |name: &str| {
        let is = rustix::fs::statvfs(fixture.volume("empty-dir", name)).unwrap();
        is.f_blocks * is.f_frsize
    };
    let (small, large, plain) = (blocks("small"), blocks("large"), blocks("plain"));
    assert_eq!((small, large, plain), (1 << 20, 2 << 20, 2 << 20));
    let path = fixture.volume("empty-dir", "small");
    assert_eq!(mode(&path), 0o777);
    std::fs::write(path.join("kept"), "x").unwrap();
    fixture.mount().await.unwrap();
    assert!(path.join("kept").exists(), "a second mount must not hide the first");
    fixture.volumes.unmount(&fixture.uid).await.unwrap();
    assert_eq!(fixture.volumes.on_disk().unwrap(), []);
}

#[tokio::test]
async fn volume_files_follow_their_sources() {
    let mut fixture = Fixture::new(json!({
        "securityContext": {"fsGroup": 2000},
        "containers": [{"name": "c", "volumeMounts": [{"name": "secret", "mountPath": "/s"}]}],
        "volumes": [
            {"name": "map", "configMap": {"name": "m", "defaultMode": 0o400}},
            {"name": "secret", "secret": {"secretName": "s"}},
            {"name": "all", "projected": {"sources": [
                {"configMap": {"name": "m", "items": [{"key": "a", "path": "deep/er/a", "mode": 0o755}]}},
                {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}]
    }));
    let error = fixture.mount().await.unwrap_err();
    assert!(error.message.contains("configmap \"m\" not found"), "{error}");
    fixture.config_map("m", json!({"data": {"a": "1", "b": "2"}, "binaryData": {"bin": "/wA="}}));
    fixture.secret("s", json!({"data": {"key": "c2VjcmV0"}}));
    assert_eq!(fixture.mount().await.unwrap(), []);
    assert_eq!(fixture.refresh().await, Refreshed::default());

    let (map, all) = (fixture.volume("configmap", "map"), fixture.volume("projected", "all"));
    let secret = fixture.volume("secret", "secret");
    assert_eq!(std::fs::read_to_string(map.join("a")).unwrap(), "1");
    assert_eq!(std::fs::read(map.join("bin")).unwrap(), [0xff, 0]);
    assert_eq!(std::fs::metadata(map.join("a")).unwrap().gid(), 2000);
    assert_eq!((mode(&map.join("a")), mode(&map), mode(&all.join("deep"))), (0o440, 0o2755, 0o2755));
    assert_eq!(std::fs::read_to_string(all.join("name")).unwrap(), "p");
    assert_eq!(mode(&all.join("deep/er/a")), 0o755);
    assert!(mounting::is_mount(&secret).unwrap() && !mounting::is_mount(&map).unwrap());
    assert!(fixture.mounts().await.unwrap()[0].read_only, "only the kubelet writes there");

    fixture.config_map("m", json!({"data": {"a": "3"}}));
    assert_eq!(fixture.refresh().await.changed, ["map", "all"]);
    assert_eq!(std::fs::read_to_string(all.join("deep/er/a")).unwrap(), "3");
    assert!(!map.join("b").exists());

    fixture.references.config_maps.clear();
    let refreshed = fixture.refresh().await;
    assert_eq!((refreshed.changed.len(), refreshed.kept.len()), (0, 2));
    assert!(refreshed.kept[0].message.contains("\"m\" not found"));
    assert_eq!(std::fs::read_to_string(map.join("a")).unwrap(), "3");
    fixture.mount().await.unwrap();

    fixture.volumes.unmount(&fixture.uid).await.unwrap();
    assert_eq!(fixture.volumes.on_disk().unwrap(), []);
}

#[tokio::test]
async fn volume_sub_paths_are_mounted() {
    let host = tempfile::tempdir().unwrap();
    std::fs::create_dir(host.path().join("sub")).unwrap();
    std::fs::write(host.path().join("sub/file"), "x").unwrap();
    let mut fixture = Fixture::new(json!({
        "containers": [{"name": "c", "env": [{"name": "WHO", "value": "me"}], "volumeMounts": [
            {"name": "host", "mountPath": "/a", "subPath": "sub/file"},
            {"name": "scratch", "mountPath": "/b", "subPathExpr": "for/$(WHO)"},
            {"name": "map", "mountPath": "/c", "subPath": "conf"}]}],
        "volumes": [
            {"name": "host", "hostPath": {"path": host.path()}}, {"name": "scratch", "emptyDir": {}},
            {"name": "map", "configMap": {"name": "m"}}]
    }));
    fixture.config_map("m", json!({"data": {"conf": "1"}}));
    fixture.mount().await.unwrap();
    let mounts = fixture.mounts().await.unwrap();
    assert_eq!(mounts, fixture.mounts().await.unwrap());
    let read = |n: usize| std::fs::read_to_string(&mounts[n].source).unwrap();
    assert_eq!((read(0).as_str(), read(2).as_str()), ("x", "1"));
    let made = fixture.volume("empty-dir", "scratch").join("for/me");
    assert_eq!((mode(&made), mode(mounts[1].source.as_ref())), (0o777, 0o777));
    std::fs::write(Path::new(&mounts[1].source).join("seen"), "").unwrap();
    assert!(made.join("seen").exists());

    // A restarted container sees the new file; a running one keeps the old file.
    fixture.config_map("m", json!({"data": {"conf": "2"}}));
    fixture.refresh().await;
    assert_eq!(read(2), "1");
    assert_eq!(fixture.mounts().await.unwrap(), mounts);
    assert_eq!(read(2), "2");

    fixture.volumes.unmount(&fixture.uid).await.unwrap();
    assert_eq!(fixture.volumes.on_disk().unwrap(), []);
    assert!(host.path().join("sub/file").exists());
}

#[tokio::test]
async fn invalid_volume_mounts_are_reported() {
    for (mount, words) in [
        (json!({"name": "x", "mountPath": "/x"}), "no volume with this name"),
        (json!({"name": "v", "mountPath": "/x", "subPath": "/x"}), "must be relative"),
        (json!({"name": "v", "mountPath": "/x", "subPath": "a/../../b"}), "must not contain"),
        (json!({"name": "v", "mountPath": "/x", "subPathExpr": "$(NONE)"}), "no variable NONE"),
        (json!({"name": "v", "mountPath": "/x", "subPathExpr": "$(UP)"}), "must not contain"),
        (json!({"name": "v", "mountPath": "/x", "subPath": "a", "subPathExpr": "b"}), "exclude each other"),
        (json!({"name": "v", "mountPath": "/x", "recursiveReadOnly": "Enabled"}), "use IfPossible"),
        (json!({"name": "v", "mountPath": "/x", "bindMountOptions": ["noexec"]}), "noexec is not supported"),
    ] {
        let fixture = Fixture::new(json!({
            "containers": [{"name": "c", "env": [{"name": "UP", "value": ".."}], "volumeMounts": [mount]}],
            "volumes": [{"name": "v", "emptyDir": {}}]
        }));
        fixture.mount().await.unwrap();
        let error = fixture.mounts().await.unwrap_err();
        assert!(error.message.contains(words), "{error}");
        assert_eq!(error.reason, "CreateContainerConfigError");
    }
}

#[tokio::test]
async fn invalid_volumes_are_reported() {
    for (volume, words) in [
        (json!({"name": "v", "emptyDir": {"medium": "HugePages"}}), "HugePages is not supported"),
        (json!({"name": "v", "nfs": {"server": "s", "path": "/"}}), "this kind of volume is not supported"),
        (json!({"name": "../v", "emptyDir": {}}), "cannot be the name of a directory"),
        (
            json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
            "there is no token of the service account default/default yet",
        ),
    ] {
        let fixture = Fixture::new(json!({"containers": [], "volumes": [volume]}));
        let error = fixture.mount().await.unwrap_err();
        assert!(error.message.contains(words), "{error}");
    }
    let mut fixture = Fixture::new(json!({"containers": []}));
    fixture.uid = PodUid::new("../outside");
    assert!(fixture.mount().await.is_err());
    assert!(fixture.volumes.unmount(&fixture.uid).await.is_err());
    assert!(fixture.volumes.termination_file(&fixture.uid, "c", 0).await.is_err());
}

#[tokio::test]
async fn termination_message_files_are_bounded_and_old_ones_removed() {
    let fixture = Fixture::new(json!({"containers": []}));
    let file = async |container: &str, attempt: u32| {
        fixture.volumes.termination_file(&fixture.uid, container, attempt).await.unwrap()
    };
    // A container name that starts with another container's name is a different container.
    let other = file("c.x", 0).await;
    std::fs::write(&other, "other").unwrap();
    for attempt in 0..4 {
        let path = file("c", attempt).await;
        assert_eq!(file("c", attempt).await, path);
        std::fs::write(&path, attempt.to_string()).unwrap();
    }
    let path = file("c", 4).await;
    let flood = || {
        let mut file = std::fs::File::create(&path).unwrap();
        (0..200).try_for_each(|_| std::io::Write::write_all(&mut file, &vec![b'x'; 1 << 20]))
    };
    assert_eq!(flood().unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    assert!(std::fs::metadata(&path).unwrap().len() <= super::termination::LIMIT_BYTES);
    // The next attempt has space again, and the status still shows the end of the previous message.
    let next = file("c", 5).await;
    std::fs::write(&next, "n".repeat(8192)).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), vec![b'x'; 4096]);
    let mut left: Vec<_> = std::fs::read_dir(next.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["c.4", "c.5", "c.x.0"]);
    assert_eq!(std::fs::read_to_string(other).unwrap(), "other");
    fixture.volumes.unmount(&fixture.uid).await.unwrap();
    assert!(!next.exists());
}

#[tokio::test]
async fn usage_of_empty_dirs_is_measured() {
    let fixture = Fixture::new(json!({"containers": [], "volumes": [
        {"name": "a", "emptyDir": {"sizeLimit": "1Mi"}}, {"name": "b", "emptyDir": {"medium": "Memory"}}]}));
    fixture.mount().await.unwrap();
    std::fs::write(fixture.volume("empty-dir", "a").join("file"), vec![1; 100_000]).unwrap();
    let usage = fixture.volumes.usage(&fixture.uid, &fixture.pod).await.unwrap();
    assert_eq!(usage.len(), 1);
    assert_eq!((usage[0].volume.as_str(), usage[0].limit_bytes), ("a", 1 << 20));
    assert!((100_000..200_000).contains(&usage[0].used_bytes), "{usage:?}");
    fixture.volumes.empty(&fixture.uid).await.unwrap();
    fixture.volumes.empty(&fixture.uid).await.unwrap();
    assert_eq!(fixture.volumes.usage(&fixture.uid, &fixture.pod).await.unwrap()[0].used_bytes, 0);
    fixture.mount().await.unwrap();
    assert!(fixture.volume("empty-dir", "a").is_dir(), "an edited pod gets a new volume");
}

fn bound(spec: Value, provisioner: &str) -> ClaimState {
    let metadata = json!({"name": "pv-1", "annotations": {"pv.kubernetes.io/provisioned-by": provisioner}});
    ClaimState::Bound(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
}

#[tokio::test]
async fn a_claim_is_mounted_once_it_is_bound() {
    let mut fixture = Fixture::new(json!({
        "containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data", "readOnly": true}}]
    }));
    assert!(fixture.mount().await.unwrap_err().to_string().contains("\"data\" is not known yet"));
    fixture.claim("data", ClaimState::Waiting("it is not bound".to_owned()));
    assert!(fixture.mount().await.unwrap_err().to_string().contains("it is not bound"));
    for (spec, why) in [
        (json!({"nfs": {"server": "s", "path": "/"}}), "has a source nfs, which is not supported"),
        (json!({"local": {"path": "/dev/x"}, "volumeMode": "Block"}), "block volumes are not supported"),
        (json!({"local": {"path": "/dev/x", "fsType": "ext4"}}), "fsType of a local volume"),
        (json!({"local": {"path": "/does/not/exist"}}), "path \"/does/not/exist\" does not exist"),
        (json!({"hostPath": {"path": "/a/../b"}}), "invalid HostPath"),
    ] {
        fixture.claim("data", bound(spec, "example.com/other"));
        let error = fixture.mount().await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let host = tempfile::tempdir().unwrap();
    for kind in ["hostPath", "local"] {
        fixture.claim("data", bound(json!({kind: {"path": host.path()}}), "example.com/other"));
        fixture.mount().await.unwrap();
        let mounts = fixture.mounts().await.unwrap();
        assert_eq!((mounts[0].source.as_str(), mounts[0].read_only), (host.path().to_str().unwrap(), true));
    }
    // The kubelet creates only directories of its own provisioner.
    let own = fixture.root.path().join("local-path/pv-1");
    fixture.claim("data", bound(json!({"local": {"path": own}}), "coracle.io/local-path"));
    fixture.mount().await.unwrap();
    assert_eq!(mode(&own), 0o777);
    assert!(fixture.volumes.delete_local("pv-1").await.is_err());
    fixture.volumes.unmount(&fixture.uid).await.unwrap();
    fixture.volumes.delete_local("pv-1").await.unwrap();
    assert!(!own.exists());
}
