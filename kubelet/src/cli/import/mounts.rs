//! Volumes of a service: bind mounts, named volumes, tmpfs, configs and secrets.

use std::path::Path;

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource, KeyToPath, SecretVolumeSource, Volume,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::model::{BindOptions, FileMount, Flag, Mount, Service, Syntax, Text, TmpfsOptions, VolumeOptions};
use super::scalars::{label, size};
use super::{Context, Findings, unsupported};

/// Directory in a container with the secrets of Compose.
const SECRETS: &str = "/run/secrets";

/// Volume mounts of a container, and the volumes of its pod.
#[derive(Clone, Debug, Default)]
pub struct Mounted {
    pub mounts: Vec<VolumeMount>,
    pub volumes: Vec<Volume>,
}

impl Mounted {
    fn add(&mut self, volume: Volume, mount: VolumeMount) {
        self.mounts.push(VolumeMount { name: volume.name.clone(), ..mount });
        if !self.volumes.contains(&volume) {
            self.volumes.push(volume);
        }
    }
}

/// Converts all volumes of a service.
pub fn convert(name: &str, service: &Service, context: &Context<'_>, findings: &mut Findings) -> Mounted {
    let (path, mut mounted) = (format!("services.{name}"), Mounted::default());
    for (at, entry) in service.volumes.iter().flatten().enumerate() {
        let path = format!("{path}.volumes[{at}]");
        let mount = match entry {
            Syntax::Short(text) => short(text),
            Syntax::Long(long) => long.clone(),
        };
        unsupported::part(&path, &mount.rest, &["consistency"], findings);
        let own_name = format!("{}-volume-{at}", label(name));
        add_mount(&path, own_name, mount, context, &mut mounted, findings);
    }
    for (at, text) in service.tmpfs.iter().flat_map(|texts| &texts.0).enumerate() {
        let (target, options) = text.split_once(':').unwrap_or((text, ""));
        let mut sizes = options.split(',').filter_map(|option| option.strip_prefix("size="));
        let limit = sizes.next().and_then(|text| findings.value(&format!("{path}.tmpfs[{at}]"), size(text)));
        mounted.add(memory(format!("{}-tmpfs-{at}", label(name)), limit), mount_at(target));
    }
    if let Some(Text(text)) = &service.shm_size {
        let limit = findings.value(&format!("{path}.shm_size"), size(text));
        mounted.add(memory(format!("{}-shm", label(name)), limit), mount_at("/dev/shm"));
    }
    for (at, entry) in service.configs.iter().flatten().enumerate() {
        add_file(&format!("{path}.configs[{at}]"), FileKind::Config, entry, context, &mut mounted, findings);
    }
    for (at, entry) in service.secrets.iter().flatten().enumerate() {
        add_file(&format!("{path}.secrets[{at}]"), FileKind::Secret, entry, context, &mut mounted, findings);
    }
    mounted
}

/// Parses the short syntax `[SOURCE:]TARGET[:OPTION,...]`.
fn short(text: &str) -> Mount {
    let mut parts = text.splitn(3, ':');
    let (first, second, options) = (parts.next(), parts.next(), parts.next().unwrap_or_default());
    let (source, target) = match (first, second) {
        (Some(source), Some(target)) => (Some(source), target),
        (target, _) => (None, target.unwrap_or_default()),
    };
    let options: Vec<&str> = options.split(',').collect();
    let is_path = source.is_some_and(|source| source.starts_with(['/', '.', '~']));
    let propagation = options.iter().find(|option| option.ends_with("slave") || option.ends_with("shared"));
    Mount {
        kind: Some(Text(if is_path { "bind" } else { "volume" }.to_owned())),
        source: source.map(|source| Text(source.to_owned())),
        target: Some(Text(target.to_owned())),
        read_only: options.contains(&"ro").then_some(Flag(true)),
        bind: BindOptions {
            propagation: propagation.map(|option| Text((*option).to_owned())),
            create_host_path: Some(Flag(true)),
        },
        volume: VolumeOptions::default(),
        tmpfs: TmpfsOptions::default(),
        rest: super::model::Rest::new(),
    }
}

fn add_mount(
    path: &str,
    own_name: String,
    mount: Mount,
    context: &Context<'_>,
    mounted: &mut Mounted,
    findings: &mut Findings,
) {
    let text = |field: &Option<Text>| field.clone().unwrap_or_default().0;
    let (source, target) = (text(&mount.source), text(&mount.target));
    if !target.starts_with('/') {
        findings.problem(
            path,
            format!("`{target}` is not an absolute path in the container"),
            "begin it with /",
        );
        return;
    }
    let propagation = match text(&mount.bind.propagation).as_str() {
        "rslave" | "slave" => Some("HostToContainer".to_owned()),
        "rshared" | "shared" => Some("Bidirectional".to_owned()),
        _ => None,
    };
    let at = VolumeMount {
        read_only: mount.read_only.filter(|flag| flag.0).map(|_| true),
        mount_propagation: propagation,
        sub_path: mount.volume.subpath.clone().map(|text| text.0),
        ..mount_at(&target)
    };
    match text(&mount.kind).as_str() {
        "bind" => {
            let host = context.resolve(&source);
            let creates = mount.bind.create_host_path.is_none_or(|flag| flag.0) && !(context.is_file)(&host);
            mounted.add(host_path(own_name, &host, creates), at);
        }
        "tmpfs" => {
            let limit = mount.tmpfs.size.as_ref();
            let limit = limit.and_then(|text| findings.value(&format!("{path}.tmpfs.size"), size(&text.0)));
            mounted.add(memory(own_name, limit), at);
        }
        "" | "volume" if source.is_empty() => mounted.add(empty_dir(own_name), at),
        "" | "volume" => {
            if let Some(volume) = named(path, &source, context, findings) {
                mounted.add(volume, at);
            }
        }
        other => {
            let what = format!("volumes of the type `{other}` are not expressed");
            findings.problem(path, what, "use bind, volume or tmpfs");
        }
    }
}

/// A named volume as a directory of the host, which keeps its content when the pod ends.
fn named(path: &str, name: &str, context: &Context<'_>, findings: &mut Findings) -> Option<Volume> {
    let Some(declared) = context.volumes.get(name) else {
        let what = format!("the volume {name} is not in the top-level `volumes`");
        findings.problem(path, what, "add it there");
        return None;
    };
    let option = |name: &str| declared.driver_opts.get(name).map(|text| text.0.as_str());
    if let (Some(device), Some("none") | None) = (option("device"), option("type"))
        && option("o").is_none_or(|options| options.split(',').any(|one| one.ends_with("bind")))
    {
        return Some(host_path(label(name), &context.resolve(device), false));
    }
    if option("type") == Some("tmpfs") {
        return Some(memory(label(name), None));
    }
    let driver = declared.driver.as_ref().map_or("local", |text| text.0.as_str());
    if driver != "local" || !declared.driver_opts.is_empty() {
        let what = format!("the driver options of the volume {name} are not expressed");
        findings.problem(
            format!("volumes.{name}"),
            what,
            "mount the file system on the host, and use a bind mount",
        );
    }
    let own = format!("{}_{name}", context.project);
    let in_engine = match (&declared.name, declared.external) {
        (Some(Text(name)), _) => name.clone(),
        (None, Some(Flag(true))) => name.to_owned(),
        (None, _) => own,
    };
    let directory = context.volumes_directory.join(&in_engine);
    let what = format!("the volume becomes the directory {}, which is empty at first", directory.display());
    let remedy = format!(
        "copy the content of the Docker volume {in_engine}, if there is one; set owner and mode for the user of the container"
    );
    findings.warn_once(format!("volumes.{name}"), what, remedy);
    Some(host_path(label(name), &directory, true))
}

/// What a service mounts as a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Config,
    Secret,
}

fn add_file(
    path: &str,
    kind: FileKind,
    entry: &Syntax<FileMount>,
    context: &Context<'_>,
    mounted: &mut Mounted,
    findings: &mut Findings,
) {
    let long = match entry {
        Syntax::Short(source) => FileMount { source: Some(Text(source.clone())), ..FileMount::default() },
        Syntax::Long(long) => long.clone(),
    };
    unsupported::part(path, &long.rest, &[], findings);
    let source = long.source.clone().unwrap_or_default().0;
    let (known, field) = match kind {
        FileKind::Config => (&context.configs, "configs"),
        FileKind::Secret => (&context.secrets, "secrets"),
    };
    if !known.contains_key(&source) {
        findings.problem(path, format!("`{source}` is not in the top-level `{field}`"), "add it there");
        return;
    }
    let target = match (long.target.map(|text| text.0), kind) {
        (Some(target), _) if target.starts_with('/') => target,
        (Some(target), FileKind::Secret) => format!("{SECRETS}/{target}"),
        (None, FileKind::Secret) => format!("{SECRETS}/{source}"),
        (Some(target), FileKind::Config) => format!("/{target}"),
        (None, FileKind::Config) => format!("/{source}"),
    };
    let octal = |text: &str| {
        i32::from_str_radix(text.trim_start_matches("0o"), 8)
            .map_err(|_| format!("`{text}` is not an octal mode"))
    };
    let mode = long.mode.as_ref().and_then(|text| findings.value(&format!("{path}.mode"), octal(&text.0)));
    let key = label(&source);
    let items = mode.map(|mode| {
        vec![KeyToPath { key: key.clone(), mode: Some(mode), path: key.clone(), ..KeyToPath::default() }]
    });
    let object = object_name(&context.project, &source);
    let suffix = mode.map_or(String::new(), |mode| format!("-{mode:o}"));
    let volume = match kind {
        FileKind::Config => Volume {
            name: label(&format!("config-{source}{suffix}")),
            config_map: Some(ConfigMapVolumeSource {
                name: object,
                items,
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        },
        FileKind::Secret => Volume {
            name: label(&format!("secret-{source}{suffix}")),
            secret: Some(SecretVolumeSource {
                secret_name: Some(object),
                items,
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        },
    };
    let mount = VolumeMount { read_only: Some(true), sub_path: Some(key), ..mount_at(&target) };
    mounted.add(volume, mount);
}

/// Name of the ConfigMap or Secret of a config or secret.
pub fn object_name(project: &str, source: &str) -> String {
    label(&format!("{project}-{source}"))
}

fn mount_at(target: &str) -> VolumeMount {
    let trimmed = target.trim_end_matches('/');
    let mount_path = if trimmed.is_empty() { "/".to_owned() } else { trimmed.to_owned() };
    VolumeMount { mount_path, ..VolumeMount::default() }
}

fn host_path(name: String, path: &Path, creates: bool) -> Volume {
    let type_ = creates.then(|| "DirectoryOrCreate".to_owned());
    let source = HostPathVolumeSource { path: path.display().to_string(), type_ };
    Volume { name, host_path: Some(source), ..Volume::default() }
}

fn empty_dir(name: String) -> Volume {
    Volume { name, empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() }
}

fn memory(name: String, limit: Option<String>) -> Volume {
    let source = EmptyDirVolumeSource {
        medium: Some("Memory".to_owned()),
        size_limit: limit.map(Quantity),
        ..EmptyDirVolumeSource::default()
    };
    Volume { name, empty_dir: Some(source), ..Volume::default() }
}
