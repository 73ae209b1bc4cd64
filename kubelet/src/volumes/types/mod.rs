//! The volume types: one file in this directory, and one line in [`TYPES`] each. docs/contributing/volume-type.md
//! shows how to add one.

mod empty_dir;
mod files;
mod host_path;
mod persistent_volume_claim;
mod projected;

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Pod, Volume};

use super::VolumeInput;
use super::content::Files;

/// A volume type in the registry.
struct Registered {
    /// The field of the Volume for this type. docs/pod-support.md marks the field with `yes`, and all other types
    /// as refused.
    field: &'static str,
    location: Location,
    /// Returns the source if its field is set.
    of: for<'a> fn(&'a Volume) -> Option<Box<dyn VolumeType + 'a>>,
}

/// The registry, one line per type.
const TYPES: &[Registered] = &[
    Registered { field: "emptyDir", location: Location::Scratch("empty-dir"), of: empty_dir::of },
    Registered { field: "hostPath", location: Location::Host, of: host_path::of },
    Registered { field: "configMap", location: Location::Files("configmap"), of: files::config_map },
    Registered { field: "secret", location: Location::Files("secret"), of: files::secret },
    Registered { field: "downwardAPI", location: Location::Files("downward-api"), of: files::downward_api },
    Registered { field: "projected", location: Location::Files("projected"), of: projected::of },
    Registered { field: "persistentVolumeClaim", location: Location::Host, of: persistent_volume_claim::of },
];

/// The source of one volume.
pub trait VolumeType {
    /// Plans the volume without disk access. `group` is the pod's `fsGroup`.
    ///
    /// # Errors
    /// If the source is invalid.
    fn plan(&self, input: &VolumeInput<'_>, group: Option<u32>) -> Result<Setup, String>;

    /// The path of a volume whose location is [`Location::Host`].
    ///
    /// # Errors
    /// If the volume has none, or none yet.
    fn host_path(&self, _: &VolumeInput<'_>) -> Result<PathBuf, String> {
        Err("this kind of volume is no path of the host".to_owned())
    }

    /// Whether all containers mount the volume read-only.
    fn is_read_only(&self) -> bool {
        false
    }

    /// The `sizeLimit` of a volume whose disk usage the kubelet measures. A pod that exceeds it is evicted.
    fn size_limit(&self) -> Option<SizeLimit> {
        None
    }

    /// The ConfigMaps and Secrets that must exist before the pod starts.
    fn references(&self) -> Vec<Reference<'_>> {
        Vec::new()
    }

    /// The lines of `kubelet describe pod` about the volume.
    fn describe(&self) -> Vec<Line>;
}

/// Where a volume is on this node.
#[derive(Clone, Copy, Debug)]
pub enum Location {
    /// The directory `volumes/kubernetes.io~<plugin>/<name>` of the pod, for data of the pod. A pod that starts
    /// again gets an empty one.
    Scratch(&'static str),
    /// The directory `volumes/kubernetes.io~<plugin>/<name>` of the pod, for files that only the kubelet writes and
    /// refreshes. Containers mount it read-only.
    Files(&'static str),
    /// A path of the host. It continues to exist after the pod.
    Host,
}

impl Location {
    /// The plugin of a directory of the pod.
    pub(super) fn plugin(self) -> Option<&'static str> {
        match self {
            Self::Scratch(plugin) | Self::Files(plugin) => Some(plugin),
            Self::Host => None,
        }
    }
}

/// How to create a volume.
pub enum Setup {
    /// Code of the volume type creates the volume.
    Custom(Box<dyn Create + Send>),
    /// A volume of the built-in provisioner. The kubelet creates its directory.
    Local {
        /// Name of the PersistentVolume.
        volume: String,
        group: Option<u32>,
    },
    /// The kubelet writes the files in `content`. If they are not available, `content` is the reason.
    Files {
        content: Result<Files, String>,
        /// Whether the files must be in memory and not on disk.
        is_secret: bool,
    },
}

/// Creates a volume.
pub trait Create {
    /// Creates the volume at its path if it does not exist. `Ok(true)` means that it is on disk although it should
    /// be in memory, because the process may not mount.
    ///
    /// # Errors
    /// If the volume cannot be prepared. The error says what failed, for the event.
    fn create(&self, path: &Path) -> Result<bool, String>;
}

/// A size limit, both in bytes and as the manifest writes it.
pub struct SizeLimit {
    /// The limit in bytes.
    pub bytes: u64,
    /// The quantity in the manifest.
    pub text: String,
}

/// A reference to an object in the pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    /// Path of the field in the volume, such as `configMap.name`.
    pub path: String,
    /// The kind of the object.
    pub kind: ReferenceKind,
    pub name: &'a str,
}

/// The kind of a referenced object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceKind {
    ConfigMap,
    Secret,
}

impl ReferenceKind {
    /// The `kind` of the object.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

/// A line of `kubelet describe pod`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A label and its value.
    Field(&'static str, String),
    /// A heading of items.
    Heading(&'static str),
    /// An item below a heading.
    Item(String),
}

/// The source of a volume. `None` if its type is not supported.
pub fn of(volume: &Volume) -> Option<Box<dyn VolumeType + '_>> {
    TYPES.iter().find_map(|registered| (registered.of)(volume))
}

/// The location of a volume. `None` if its type is not supported.
pub(super) fn location(volume: &Volume) -> Option<Location> {
    TYPES.iter().find(|registered| (registered.of)(volume).is_some()).map(|registered| registered.location)
}

/// The plugins of scratch volumes.
pub(super) fn scratch_plugins() -> impl Iterator<Item = &'static str> {
    TYPES.iter().filter_map(|registered| match registered.location {
        Location::Scratch(plugin) => Some(plugin),
        Location::Files(_) | Location::Host => None,
    })
}

/// The fields of the supported types, for messages.
pub(super) fn supported() -> String {
    let fields: Vec<&str> = TYPES.iter().map(|registered| registered.field).collect();
    fields.join(", ")
}

/// The volumes of a pod that have a size limit.
pub(super) fn limited(pod: &Pod) -> impl Iterator<Item = (&Volume, SizeLimit)> {
    volumes(pod).filter_map(|volume| Some((volume, of(volume)?.size_limit()?)))
}

pub(super) fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
}

/// The reference to an object. `None` if the object is optional.
fn required<'a>(
    path: impl Into<String>,
    kind: ReferenceKind,
    name: &'a str,
    optional: Option<bool>,
) -> Option<Reference<'a>> {
    (optional != Some(true)).then(|| Reference { path: path.into(), kind, name })
}

/// The line that says whether the object is optional.
fn optional(optional: Option<bool>) -> Line {
    Line::Field("Optional", optional.unwrap_or_default().to_string())
}

#[cfg(test)]
mod tests {
    //! Tests that the registry and the support page agree.

    use std::collections::BTreeSet;

    use super::TYPES;

    const PAGE: &str = include_str!("../../../../docs/pod-support.md");

    #[test]
    fn the_support_page_lists_exactly_the_registered_types() {
        let section = PAGE.split("\n## Volume\n").nth(1).and_then(|rest| rest.split("\n## ").next());
        let rows = section.unwrap_or_default().lines().filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let ["", field, state, ..] = cells[..] else { return None };
            let field = field.strip_prefix('`')?.strip_suffix('`')?;
            (state != "refused" && field != "name").then_some(field)
        });
        let registered: BTreeSet<&str> = TYPES.iter().map(|registered| registered.field).collect();
        assert_eq!(rows.collect::<BTreeSet<_>>(), registered);
    }
}
