//! `persistentVolumeClaim` volumes: the `hostPath` or `local` volume to which a claim is bound.

use std::path::{Path, PathBuf};

use api::references::{ClaimKey, ClaimState};
use k8s_openapi::api::core::v1::{
    PersistentVolume, PersistentVolumeClaimVolumeSource, PersistentVolumeSpec, Volume,
};

use super::{Create, Line, Setup, VolumeInput, VolumeType, host_path};

/// The annotation of a volume with the provisioner that created it.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The built-in provisioner of a master of this project.
const LOCAL_PATH: &str = "coracle.io/local-path";
/// The field of each source of a PersistentVolume that this node cannot mount.
const SUPPORTED: &str = "use hostPath or local";

pub(super) fn of(volume: &Volume) -> Option<Box<dyn VolumeType + '_>> {
    Some(Box::new(ClaimVolume(volume.persistent_volume_claim.as_ref()?)))
}

struct ClaimVolume<'a>(&'a PersistentVolumeClaimVolumeSource);

/// A planned `local` volume that the kubelet does not create.
struct LocalDirectory;

impl ClaimVolume<'_> {
    /// The volume of the claim.
    fn bound<'a>(
        &self,
        input: &VolumeInput<'a>,
    ) -> Result<(&'a PersistentVolume, &'a PersistentVolumeSpec), String> {
        let name = &self.0.claim_name;
        let key = ClaimKey { pod_uid: input.uid.as_str().to_owned(), claim: name.clone() };
        match input.references.claims.get(&key).map(|claim| &claim.state) {
            Some(ClaimState::Bound(volume)) => {
                let spec = volume.spec.as_ref();
                spec.map(|spec| (&**volume, spec)).ok_or_else(|| "the persistentvolume is empty".to_owned())
            }
            Some(ClaimState::Waiting(why)) => Err(why.clone()),
            None => {
                Err(format!("persistentvolumeclaim \"{name}\" is not known yet: waiting for the API server"))
            }
        }
    }
}

impl VolumeType for ClaimVolume<'_> {
    fn plan(&self, input: &VolumeInput<'_>, group: Option<u32>) -> Result<Setup, String> {
        let (volume, spec) = self.bound(input)?;
        if spec.volume_mode.as_deref() == Some("Block") {
            return Err("block volumes are not supported: use volumeMode Filesystem".to_owned());
        }
        if let Some(source) = &spec.host_path {
            return host_path::plan(source);
        }
        let name = volume.metadata.name.clone().unwrap_or_default();
        let Some(local) = &spec.local else {
            let fields = serde_json::to_value(spec).unwrap_or_default();
            let known = ["accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity"];
            let is_source = |field: &&String| !known.contains(&field.as_str()) && fields[*field].is_object();
            let kind = fields.as_object().and_then(|all| all.keys().find(is_source)).cloned();
            let kind = kind.unwrap_or_default();
            return Err(format!(
                "the persistentvolume {name:?} has a source {kind}, which is not supported on this node: {SUPPORTED}"
            ));
        };
        host_path::check("local volume path", &local.path)?;
        let annotations = volume.metadata.annotations.as_ref();
        if annotations.and_then(|all| all.get(PROVISIONED_BY)).is_some_and(|by| by == LOCAL_PATH) {
            return Ok(Setup::Local { volume: name, group });
        }
        if local.fs_type.is_some() {
            return Err(
                "fsType of a local volume is not supported: mount the device, and use its path".to_owned()
            );
        }
        Ok(Setup::Custom(Box::new(LocalDirectory)))
    }

    fn host_path(&self, input: &VolumeInput<'_>) -> Result<PathBuf, String> {
        let (_, spec) = self.bound(input)?;
        let host_path = spec.host_path.as_ref().map(|source| &source.path);
        let path = host_path.or(spec.local.as_ref().map(|source| &source.path));
        path.map(PathBuf::from)
            .ok_or_else(|| format!("this kind of persistentvolume is not supported: {SUPPORTED}"))
    }

    fn is_read_only(&self) -> bool {
        self.0.read_only == Some(true)
    }

    fn describe(&self) -> Vec<Line> {
        vec![
            Line::Field(
                "Type",
                "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)"
                    .to_owned(),
            ),
            Line::Field("ClaimName", self.0.claim_name.clone()),
            Line::Field("ReadOnly", self.is_read_only().to_string()),
        ]
    }
}

impl Create for LocalDirectory {
    /// Checks that the directory exists: only its administrator creates it.
    ///
    /// # Errors
    /// If it does not exist, or is no directory.
    fn create(&self, path: &Path) -> Result<bool, String> {
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => Ok(false),
            Ok(_) => {
                Err(format!("path {} is not a directory: device files are not supported", path.display()))
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                Err(format!("path \"{}\" does not exist", path.display()))
            }
            Err(e) => Err(format!("{}: {e}", path.display())),
        }
    }
}
