//! Inspects the engine and its containers, and converts responses to the kubelet's types.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::SeekFrom;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use bollard::models::{ContainerInspectResponse, ContainerState, ContainerStateStatusEnum, ContainerSummary};
use bollard::query_parameters::{InspectContainerOptions, ListContainersOptions};
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::errors::{QUERY_TIMEOUT, WORK_TIMEOUT, with_timeout};
use super::{Docker, logs};
use crate::observed::{Container, Exit, PodUid, Sandbox, State, Timestamp};
use crate::runtime::{
    ContainerStorage, Error, Identity, Info, Inspected, Listed, TERMINATION_MESSAGE_BYTES, labels,
};

pub(super) async fn info(docker: &Docker) -> Result<Info, Error> {
    let client = docker.client().await?;
    let (info, version) = tokio::try_join!(
        with_timeout(QUERY_TIMEOUT, "describe itself", "the engine", client.info()),
        with_timeout(QUERY_TIMEOUT, "tell its version", "the engine", client.version())
    )?;
    let security: Vec<String> = info
        .security_options
        .unwrap_or_default()
        .iter()
        .map(|option| {
            option.strip_prefix("name=").unwrap_or(option).split(',').next().unwrap_or_default().to_owned()
        })
        .collect();
    Ok(Info {
        version: version.version.unwrap_or_default(),
        api_version: version.api_version.unwrap_or_default(),
        cgroup_driver: info.cgroup_driver.map(|driver| driver.to_string()).unwrap_or_default(),
        cgroup_version: if info.cgroup_version.is_some_and(|v| v.to_string() == "2") { 2 } else { 1 },
        cpus: info.ncpu.and_then(|n| u32::try_from(n).ok()).unwrap_or_default(),
        memory_bytes: info.mem_total.and_then(|n| u64::try_from(n).ok()).unwrap_or_default(),
        kernel: info.kernel_version.unwrap_or_default(),
        os: info.operating_system.unwrap_or_default(),
        rootless: security.iter().any(|option| option == "rootless"),
        data_root: info.docker_root_dir.unwrap_or_default(),
        security,
    })
}

pub(super) async fn list(docker: &Docker) -> Result<Vec<Listed>, Error> {
    let options = ListContainersOptions {
        all: true,
        filters: Some(docker.node_filter()),
        ..ListContainersOptions::default()
    };
    let request = docker.client().await?.list_containers(Some(options));
    let found = with_timeout(QUERY_TIMEOUT, "list containers", "containers", request).await?;
    docker.restrictions.tidy(docker, &found).await?;
    Ok(found.into_iter().filter_map(listed).collect())
}

fn listed(found: ContainerSummary) -> Option<Listed> {
    let state = found.state.map(|state| state.to_string()).unwrap_or_default();
    Some(Listed {
        id: found.id?,
        identity: identity(&found.labels.unwrap_or_default())?,
        running: matches!(state.as_str(), "running" | "paused" | "restarting"),
        state,
    })
}

pub(super) async fn inspect(docker: &Docker, id: &str) -> Result<Inspected, Error> {
    let found = inspect_raw(docker, id).await?;
    seen(docker, id, found).await
}

/// Inspects a container of any node.
pub(super) async fn inspect_raw(docker: &Docker, id: &str) -> Result<ContainerInspectResponse, Error> {
    with_timeout(
        QUERY_TIMEOUT,
        "inspect the container",
        id,
        docker.client().await?.inspect_container(id, None),
    )
    .await
}

/// Where the writable layer and the log of a container are. The engine measures the layer only if its directory is not on
/// this machine.
pub(super) async fn storage(docker: &Docker, id: &str) -> Result<ContainerStorage, Error> {
    let found = inspect_raw(docker, id).await?;
    let driver = found.graph_driver.and_then(|driver| driver.data.get("UpperDir").map(PathBuf::from));
    let log = found.log_path.filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some(layer) = driver.filter(|layer| layer.is_dir()) {
        return Ok(ContainerStorage { layer: Some(layer), layer_bytes: None, log });
    }
    let options = InspectContainerOptions { size: true };
    let request = docker.client().await?.inspect_container(id, Some(options));
    let found = with_timeout(WORK_TIMEOUT, "measure the container", id, request).await?;
    let layer_bytes = found.size_rw.and_then(|bytes| u64::try_from(bytes).ok());
    Ok(ContainerStorage { layer: None, layer_bytes, log })
}

/// Image ids of all containers of the engine.
pub(super) async fn images_in_use(docker: &Docker) -> Result<BTreeSet<String>, Error> {
    let options = ListContainersOptions { all: true, ..ListContainersOptions::default() };
    let request = docker.client().await?.list_containers(Some(options));
    let found = with_timeout(QUERY_TIMEOUT, "list containers", "containers", request).await?;
    Ok(found.into_iter().filter_map(|container| container.image_id).collect())
}

/// Converts the response to an inspection, and adds the termination message of an exited container.
pub(super) async fn seen(
    docker: &Docker,
    id: &str,
    found: ContainerInspectResponse,
) -> Result<Inspected, Error> {
    let mut seen = convert(&docker.node, found)
        .ok_or_else(|| Error::NotFound { what: format!("container {id} of this node") })?;
    if let Inspected::Container(_, container) = &mut seen
        && let State::Exited(exit) = &container.state
    {
        container.message = message(docker, &container.id, &container.notes, exit).await?;
    }
    Ok(seen)
}

/// Converts the response to an inspection. `None` if the container does not belong to this node.
pub(super) fn convert(node: &str, found: ContainerInspectResponse) -> Option<Inspected> {
    let id = found.id?;
    let config = found.config.unwrap_or_default();
    let is_bare = config.network_disabled == Some(true);
    let mut all = config.labels.unwrap_or_default();
    if all.get(labels::NODE).map(String::as_str) != Some(node) {
        return None;
    }
    let identity = identity(&all)?;
    let created_at = time(found.created.as_deref()).unwrap_or(Timestamp::UNIX_EPOCH);
    let state = state(found.state.unwrap_or_default(), created_at);
    let (attempt, hash) = (identity.attempt, identity.hash.clone());
    if identity.container == labels::SANDBOX_NAME {
        let networks = found.network_settings.and_then(|settings| settings.networks).unwrap_or_default();
        let ips = networks
            .into_iter()
            .collect::<BTreeMap<_, _>>()
            .into_values()
            .flat_map(|end| [end.ip_address, end.global_ipv6_address])
            .filter_map(|ip| ip?.parse::<IpAddr>().ok())
            .collect();
        return Some(Inspected::Sandbox(
            identity,
            Sandbox { id, attempt, hash, state, ips, is_bare, created_at },
        ));
    }
    let mut take = |label: &str| all.remove(label).unwrap_or_default();
    let container = Container {
        id,
        name: identity.container.clone(),
        attempt,
        hash,
        back_off: Duration::from_millis(take(labels::BACK_OFF).parse().unwrap_or_default()),
        image: take(labels::IMAGE),
        image_id: found.image.unwrap_or_default(),
        sandbox_id: take(labels::SANDBOX),
        state,
        created_at,
        stop_signal: config.stop_signal.filter(|signal| !signal.is_empty()),
        notes: notes(all),
        message: None,
    };
    Some(Inspected::Container(identity, container))
}

/// The labels that later inspections need. They are the kubelet's own, without identity and image labels.
fn notes(all: HashMap<String, String>) -> BTreeMap<String, String> {
    all.into_iter().filter(|(key, _)| key.starts_with("io.coracle.")).collect()
}

/// The identity in a container's labels, or `None` if a mandatory label is missing.
pub(super) fn identity(all: &HashMap<String, String>) -> Option<Identity> {
    let text = |key: &str| all.get(key).filter(|value| !value.is_empty()).cloned();
    Some(Identity {
        uid: PodUid::new(&text(labels::POD_UID)?),
        pod: text(labels::POD_NAME)?,
        namespace: text(labels::POD_NAMESPACE)?,
        container: text(labels::CONTAINER_NAME)?,
        attempt: text(labels::ATTEMPT)?.parse().ok()?,
        hash: text(labels::HASH).unwrap_or_default(),
    })
}

/// Docker's error for a container that joins the namespaces of a stopped one; from `container_operations.go`.
const SANDBOX_DOWN: &str = "of a non running container";

/// Converts Docker's container state.
fn state(found: ContainerState, created_at: Timestamp) -> State {
    use ContainerStateStatusEnum as Status;
    let started_at = time(found.started_at.as_deref());
    let exit = |code: i64, error: Option<String>, started_at: Option<Timestamp>| {
        State::Exited(Exit {
            code: i32::try_from(code).unwrap_or(i32::MAX),
            oom_killed: found.oom_killed.unwrap_or_default(),
            error: error.filter(|error| !error.is_empty()).map(|error| super::errors::clean(&error)),
            started_at,
            // The engine records the start after runc returns; a short process has exited by then.
            finished_at: time(found.finished_at.as_deref())
                .or(started_at)
                .unwrap_or(created_at)
                .max(started_at.unwrap_or(created_at)),
        })
    };
    let code = found.exit_code.unwrap_or_default();
    let error = found.error.as_deref().unwrap_or_default();
    match found.status.unwrap_or(Status::EMPTY) {
        Status::RUNNING | Status::PAUSED | Status::RESTARTING | Status::STOPPING => State::Running {
            started_at: started_at.unwrap_or(created_at),
            pid: found.pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or_default(),
        },
        // After a failed start, Docker leaves the status "created", with an exit code and an error.
        Status::CREATED if code == 0 && error.is_empty() => State::Created,
        // The sandbox was not running, so the container itself was never tried.
        Status::CREATED if error.contains(SANDBOX_DOWN) => State::Created,
        Status::CREATED => exit(code, found.error.clone(), None),
        Status::EXITED | Status::DEAD | Status::REMOVING | Status::EMPTY => {
            exit(code, found.error.clone(), started_at)
        }
    }
}

/// Parses an RFC 3339 time. Docker writes the year 1 for "never".
fn time(text: Option<&str>) -> Option<Timestamp> {
    let time: Timestamp = text?.parse().ok()?;
    (time > Timestamp::UNIX_EPOCH).then_some(time)
}

/// The termination message: the content of its file. If the file is empty, the container failed and its policy asks
/// for it, the message is the end of the log.
async fn message(
    docker: &Docker,
    id: &str,
    notes: &BTreeMap<String, String>,
    exit: &Exit,
) -> Result<Option<String>, Error> {
    if let Some(path) = notes.get(labels::TERMINATION_FILE).filter(|path| !path.is_empty()) {
        let words = read_end(path).await.unwrap_or_default();
        if !words.is_empty() {
            return Ok(Some(String::from_utf8_lossy(&words).into_owned()));
        }
    }
    let wants_log =
        notes.get(labels::TERMINATION_POLICY).is_some_and(|policy| policy == "FallbackToLogsOnError");
    if wants_log && exit.code != 0 && exit.started_at.is_some() {
        return logs::log_tail(docker, id).await;
    }
    Ok(None)
}

/// Reads the end of a file, up to the limit of the stock kubelet.
async fn read_end(path: &str) -> std::io::Result<Vec<u8>> {
    let mut file = tokio::fs::File::open(path).await?;
    let start = file.metadata().await?.len().saturating_sub(TERMINATION_MESSAGE_BYTES);
    file.seek(SeekFrom::Start(start)).await?;
    let mut words = Vec::new();
    file.take(TERMINATION_MESSAGE_BYTES).read_to_end(&mut words).await?;
    Ok(words)
}

#[cfg(test)]
mod tests;
