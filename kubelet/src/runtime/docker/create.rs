//! Creates sandboxes and containers, and reuses existing ones.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, HealthConfig, HostConfig, HostConfigLogConfig,
    Mount as EngineMount, MountBindOptions, MountBindOptionsPropagationEnum, MountType, PortBinding,
};
use bollard::query_parameters::CreateContainerOptions;

use super::errors::{WORK_TIMEOUT, is_gone, with_timeout};
use super::pause::pause_image;
use super::{Docker, Settings, inspect, lifecycle};
use crate::observed;
use crate::runtime::spec::{ContainerSpec, HostPort, Identity, Mount, Network, SandboxSpec, Security};
use crate::runtime::{Error, Inspected, Labels, Refusal, labels};

/// `oom_score_adj` of a sandbox, as in stock Kubernetes. The kernel kills a sandbox last.
const SANDBOX_OOM_SCORE_ADJ: i64 = -998;

/// cgroup v1 CPU shares of a sandbox. They are the minimum, because a sandbox only waits.
const SANDBOX_CPU_SHARES: i64 = 2;

/// How long creation is retried while the engine reports a name conflict without showing a container. That happens
/// while a container of a killed kubelet is still being created or removed.
const NAME_CONFLICT_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval between these retries. The engine sends no event, and resolves the conflict within some tens of
/// milliseconds.
const NAME_RETRY_INTERVAL: Duration = Duration::from_millis(20);

pub(super) async fn sandbox(docker: &Docker, spec: &SandboxSpec) -> Result<observed::Sandbox, Error> {
    let mut body = sandbox_body(&docker.node, spec);
    docker.restrictions.adapt(docker, &mut body).await?;
    match create_or_adopt(docker, &spec.identity, &body).await? {
        Inspected::Sandbox(_, sandbox) => Ok(sandbox),
        Inspected::Container(identity, _) => Err(mislabelled(&identity)),
    }
}

pub(super) async fn container(docker: &Docker, spec: &ContainerSpec) -> Result<observed::Container, Error> {
    let mut body = container_body(&docker.node, &docker.settings, spec);
    docker.restrictions.adapt(docker, &mut body).await?;
    match create_or_adopt(docker, &spec.identity, &body).await? {
        Inspected::Container(_, container) => Ok(container),
        Inspected::Sandbox(identity, _) => Err(mislabelled(&identity)),
    }
}

fn mislabelled(identity: &Identity) -> Error {
    let message = format!("{} has the labels of another kind of container", identity.engine_name());
    Error::refused("create the container", message)
}

/// Creates a container under the name of the identity. An existing one is returned if it has the same identity,
/// otherwise replaced.
async fn create_or_adopt(
    docker: &Docker,
    identity: &Identity,
    body: &ContainerCreateBody,
) -> Result<Inspected, Error> {
    let name = identity.engine_name();
    let give_up = Instant::now() + NAME_CONFLICT_TIMEOUT;
    loop {
        let error = match create(docker, &name, body).await {
            Ok(id) => return inspect::inspect(docker, &id).await,
            Err(error) if is_conflict(&error) && Instant::now() < give_up => error,
            Err(error) => return Err(error),
        };
        match inspect::inspect_raw(docker, &name).await {
            Ok(found) => match same(docker, identity, &found) {
                Some(true) => return inspect::seen(docker, &name, found).await,
                Some(false) => lifecycle::remove(docker, &name).await?,
                None => return Err(error),
            },
            Err(gone) if is_gone(&gone) => tokio::time::sleep(NAME_RETRY_INTERVAL).await,
            Err(error) => return Err(error),
        }
    }
}

/// Creates a container under a name that is reserved for this node. It replaces an existing container, even one
/// that the engine is still creating for a killed kubelet.
pub(super) async fn create_replacing(
    docker: &Docker,
    name: &str,
    body: &ContainerCreateBody,
) -> Result<String, Error> {
    let give_up = Instant::now() + NAME_CONFLICT_TIMEOUT;
    loop {
        lifecycle::remove(docker, name).await?;
        match create(docker, name, body).await {
            Err(error) if is_conflict(&error) && Instant::now() < give_up => {
                tokio::time::sleep(NAME_RETRY_INTERVAL).await;
            }
            made => return made,
        }
    }
}

/// Whether an existing container has the wanted identity. `None` if it belongs to another node.
fn same(docker: &Docker, identity: &Identity, found: &ContainerInspectResponse) -> Option<bool> {
    let all = found.config.as_ref()?.labels.as_ref()?;
    if all.get(labels::NODE) != Some(&docker.node) {
        return None;
    }
    let usable = found.state.as_ref().is_none_or(|state| !state.dead.unwrap_or_default());
    Some(usable && inspect::identity(all).as_ref() == Some(identity))
}

fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Refused { cause: Refusal::Conflict, .. })
}

/// Creates a container and returns its id. Loads the built-in pause image if the engine does not have it.
pub(super) async fn create(docker: &Docker, name: &str, body: &ContainerCreateBody) -> Result<String, Error> {
    let _turn = docker.creates.acquire().await;
    match create_once(docker, name, body).await {
        Err(error) if is_gone(&error) && body.image.as_deref() == Some(pause_image()) => {
            docker.pause.load(docker).await?;
            create_once(docker, name, body).await
        }
        made => made,
    }
}

async fn create_once(docker: &Docker, name: &str, body: &ContainerCreateBody) -> Result<String, Error> {
    let options = CreateContainerOptions { name: Some(name.to_owned()), ..CreateContainerOptions::default() };
    let request = docker.client().await?.create_container(Some(options), body.clone());
    with_timeout(WORK_TIMEOUT, "create the container", name, request).await.map(|made| made.id)
}

/// The Docker API request for a sandbox.
fn sandbox_body(node: &str, spec: &SandboxSpec) -> ContainerCreateBody {
    let (exposed, bindings) = ports(&spec.host_ports);
    let (security, masked, read_only) = security_options(&spec.security_options);
    ContainerCreateBody {
        image: Some(spec.image.clone()),
        hostname: spec.hostname.clone(),
        domainname: spec.domain.clone(),
        user: spec.user.clone(),
        labels: Some(all_labels(node, &spec.identity, Labels::new())),
        exposed_ports: filled(exposed),
        network_disabled: (spec.network == Network::Bare).then_some(true),
        host_config: Some(HostConfig {
            network_mode: match spec.network {
                Network::Host => Some("host".to_owned()),
                Network::Pod => Some("bridge".to_owned()),
                Network::Bare => None,
            },
            uts_mode: uts(spec.network == Network::Host),
            ipc_mode: Some(if spec.host_ipc { "host" } else { "shareable" }.to_owned()),
            pid_mode: spec.host_pid.then(|| "host".to_owned()),
            port_bindings: filled(bindings),
            extra_hosts: filled(spec.host_aliases.iter().map(|(name, ip)| format!("{name}:{ip}")).collect()),
            dns: filled(spec.dns.servers.clone()),
            dns_search: filled(spec.dns.searches.clone()),
            dns_options: filled(spec.dns.options.clone()),
            sysctls: filled(spec.sysctls.clone().into_iter().collect()),
            cgroup_parent: spec.cgroup_parent.clone(),
            security_opt: filled(security),
            masked_paths: masked,
            readonly_paths: read_only,
            cap_drop: Some(vec!["ALL".to_owned()]),
            readonly_rootfs: Some(true),
            cpu_shares: Some(SANDBOX_CPU_SHARES),
            oom_score_adj: Some(SANDBOX_OOM_SCORE_ADJ),
            log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
            init: Some(false),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

/// The Docker API request for a container.
fn container_body(node: &str, settings: &Settings, spec: &ContainerSpec) -> ContainerCreateBody {
    let sandbox = format!("container:{}", spec.sandbox_id);
    let Security { user, groups, privileged, add, drop, read_only_root, options } = &spec.security;
    let (security, masked, read_only) = security_options(options);
    let resources = &spec.resources;
    ContainerCreateBody {
        image: Some(spec.image_id.clone()),
        entrypoint: spec.command.clone().filter(|command| !command.is_empty()),
        cmd: spec.args.clone().filter(|args| !args.is_empty()),
        working_dir: spec.working_dir.clone(),
        env: filled(spec.env.clone()),
        user: user.clone(),
        labels: Some(all_labels(node, &spec.identity, container_labels(spec))),
        stop_signal: spec.stop_signal.clone(),
        open_stdin: Some(spec.stdin),
        stdin_once: Some(spec.stdin_once),
        tty: Some(spec.tty),
        // The pod's probes replace the image's health check.
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }),
        host_config: Some(HostConfig {
            // The container joins the sandbox even with host network, because the sandbox has the pod's /etc/hosts and
            // resolv.conf.
            network_mode: Some(sandbox.clone()),
            uts_mode: uts(spec.network == Network::Host),
            ipc_mode: Some(if spec.host_ipc { "host".to_owned() } else { sandbox }),
            pid_mode: match &spec.processes_of {
                _ if spec.host_pid => Some("host".to_owned()),
                other => other.as_ref().map(|id| format!("container:{id}")),
            },
            mounts: filled(spec.mounts.iter().map(mount).collect()),
            cpu_shares: resources.cpu_shares,
            cpu_quota: resources.cpu_quota,
            cpu_period: resources.cpu_period,
            memory: resources.memory_bytes,
            memory_swap: resources.memory_bytes,
            pids_limit: resources.pids,
            oom_score_adj: Some(i64::from(spec.oom_score_adj)),
            cgroup_parent: spec.cgroup_parent.clone(),
            group_add: filled(groups.clone()),
            privileged: Some(*privileged),
            cap_add: filled(add.clone()),
            cap_drop: filled(drop.clone()),
            readonly_rootfs: Some(*read_only_root),
            security_opt: filled(security),
            masked_paths: masked,
            readonly_paths: read_only,
            log_config: Some(log_config(settings)),
            init: Some(false),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

/// The mode of the UTS namespace. With host network, it is that of the host.
fn uts(host: bool) -> Option<String> {
    host.then(|| "host".to_owned())
}

fn container_labels(spec: &ContainerSpec) -> Labels {
    let mut all = spec.labels.clone();
    let mut put = |key: &str, value: String| all.insert(key.to_owned(), value);
    put(labels::BACK_OFF, spec.back_off.as_millis().to_string());
    put(labels::SANDBOX, spec.sandbox_id.clone());
    put(labels::IMAGE, spec.image.clone());
    put(labels::TERMINATION_POLICY, spec.termination.policy.clone());
    put(labels::TERMINATION_FILE, spec.termination.file.clone());
    all
}

/// All labels. Identity labels are added last, so that no label of the pod or image overrides them.
fn all_labels(node: &str, identity: &Identity, more: Labels) -> HashMap<String, String> {
    let mut all: HashMap<String, String> = more.into_iter().collect();
    let mut put = |key: &str, value: &str| all.insert(key.to_owned(), value.to_owned());
    put(labels::NODE, node);
    put(labels::POD_UID, identity.uid.as_str());
    put(labels::POD_NAME, &identity.pod);
    put(labels::POD_NAMESPACE, &identity.namespace);
    put(labels::CONTAINER_NAME, &identity.container);
    put(labels::ATTEMPT, &identity.attempt.to_string());
    put(labels::HASH, &identity.hash);
    all
}

fn log_config(settings: &Settings) -> HostConfigLogConfig {
    HostConfigLogConfig {
        typ: Some("json-file".to_owned()),
        config: Some(HashMap::from([
            ("max-size".to_owned(), settings.log_max_bytes.to_string()),
            ("max-file".to_owned(), settings.log_max_files.to_string()),
        ])),
    }
}

/// Creates a bind mount. It uses `Mounts`, because with `Binds` the engine creates a missing source as root.
fn mount(mount: &Mount) -> EngineMount {
    use MountBindOptionsPropagationEnum as Propagation;
    let propagation = match mount.propagation.as_str() {
        "rslave" => Some(Propagation::RSLAVE),
        "rshared" => Some(Propagation::RSHARED),
        // The engine's default. It rejects private mounts of directories that contain its own, and makes them slaves by
        // default.
        _ => None,
    };
    EngineMount {
        typ: Some(MountType::BIND),
        source: Some(mount.source.clone()),
        target: Some(mount.target.clone()),
        read_only: Some(mount.read_only),
        bind_options: Some(MountBindOptions { propagation, ..MountBindOptions::default() }),
        ..EngineMount::default()
    }
}

type Bindings = HashMap<String, Option<Vec<PortBinding>>>;

fn ports(ports: &[HostPort]) -> (Vec<String>, Bindings) {
    let mut bindings = Bindings::new();
    for port in ports {
        let at = PortBinding {
            host_ip: port.host_ip.map(|ip| ip.to_string()),
            host_port: Some(port.host_port.to_string()),
        };
        let key = format!("{}/{}", port.container_port, port.protocol.to_lowercase());
        bindings.entry(key).or_default().get_or_insert_default().push(at);
    }
    let mut exposed: Vec<_> = bindings.keys().cloned().collect();
    exposed.sort();
    (exposed, bindings)
}

/// Removes `systempaths=unconfined` from the options. Returns two empty lists of paths instead, which mean the same
/// in Docker's API.
fn security_options(options: &[String]) -> (Vec<String>, Option<Vec<String>>, Option<Vec<String>>) {
    let rest: Vec<_> = options.iter().filter(|option| *option != "systempaths=unconfined").cloned().collect();
    let open = (rest.len() < options.len()).then(Vec::new);
    (rest, open.clone(), open)
}

/// Returns `None` for an empty value, which the API reads as the default of image or engine.
fn filled<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

#[cfg(test)]
mod tests;
