//! Builds the node's status report: capacity, conditions, addresses and node info.

use std::collections::BTreeMap;

use super::allocatable;
use crate::observed::{Pressure, Timestamp};
use crate::options::Options;
use crate::report::{LOCAL_PATH_DIRECTORY, LOCAL_VOLUMES, NodeCondition, NodeInfo, NodeReport};
use crate::runtime::Info;
use crate::spec::Facts;

/// The current state of the engine.
#[derive(Clone, Copy, Debug)]
pub enum EngineState<'a> {
    /// The engine answers.
    Up(&'a Info),
    /// The engine does not answer, with the error.
    Down(&'a str),
}

/// The state of the node at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    pub engine: EngineState<'a>,
    /// The error, if pods have no network.
    pub network: Result<(), &'a str>,
    /// The pressure conditions.
    pub pressures: &'a [(Pressure, bool)],
    /// The current time.
    pub now: Timestamp,
}

/// The status report of this moment. A condition keeps its transition time while its status stays the same.
pub fn report(
    options: &Options,
    facts: &Facts,
    moment: Moment<'_>,
    version: &str,
    previous: &[NodeCondition],
) -> NodeReport {
    let Moment { engine, network, pressures, now } = moment;
    let pressures = pressures.iter().map(|(pressure, is_short)| {
        let [kind, reason, message] = pressure.condition(*is_short);
        let status = if *is_short { "True" } else { "False" };
        condition(kind, [status, reason, message], previous, now)
    });
    let others = [ready(engine, network, previous, now), unavailable(network, previous, now)];
    let capacity: BTreeMap<String, String> = [
        ("cpu", format!("{}", facts.cpu_milli / 1000)),
        ("memory", format!("{}Ki", facts.memory_bytes / 1024)),
        ("ephemeral-storage", format!("{}Ki", facts.ephemeral_storage_bytes / 1024)),
        ("pods", options.max_pods.to_string()),
    ]
    .into_iter()
    .map(|(name, amount)| (name.to_owned(), amount))
    .collect();
    let mut allocatable: BTreeMap<String, String> =
        allocatable(facts).into_iter().map(|(name, amount)| (name, amount.to_string())).collect();
    allocatable.insert("pods".to_owned(), options.max_pods.to_string());
    let internal = facts.host_ips.iter().map(|ip| ("InternalIP".to_owned(), ip.to_string()));
    let addresses = internal.chain([("Hostname".to_owned(), options.node_name.clone())]).collect();
    NodeReport {
        labels: labels(options),
        annotations: annotations(options),
        taints: options
            .register_with_taints
            .iter()
            .map(|taint| (taint.key.clone(), taint.value.clone(), taint.effect.clone()))
            .collect(),
        created_at: None,
        allocatable,
        capacity,
        conditions: pressures.chain(others).collect(),
        addresses,
        kubelet_port: options.api_address.map(|address| address.port()),
        info: info(engine, version),
        images: Vec::new(),
    }
}

/// The annotations for a master: where `local-path` volumes of this node are.
fn annotations(options: &Options) -> BTreeMap<String, String> {
    let directory = options.root_dir.join(LOCAL_VOLUMES).to_str().map(str::to_owned);
    let directory = directory.filter(|_| options.cluster.is_some());
    directory.into_iter().map(|path| (LOCAL_PATH_DIRECTORY.to_owned(), path)).collect()
}

fn ready(
    engine: EngineState<'_>,
    network: Result<(), &str>,
    previous: &[NodeCondition],
    now: Timestamp,
) -> NodeCondition {
    let (status, reason, message) = match (engine, network) {
        (EngineState::Up(_), Ok(())) => {
            ("True", "KubeletReady", "kubelet is posting ready status".to_owned())
        }
        // The message of the stock kubelet, which other programs search for.
        (EngineState::Up(_), Err(why)) => {
            ("False", "KubeletNotReady", format!("container runtime network not ready: {why}"))
        }
        (EngineState::Down(why), _) => (
            "False",
            "ContainerEngineUnreachable",
            format!("the container engine does not answer, running containers are left alone: {why}"),
        ),
    };
    condition("Ready", [status, reason, &message], previous, now)
}

fn unavailable(network: Result<(), &str>, previous: &[NodeCondition], now: Timestamp) -> NodeCondition {
    let words = match network {
        Ok(()) => ["False", "PodNetworkReady", "pods of this node have a network"],
        Err(why) => ["True", "PodNetworkNotReady", why],
    };
    condition("NetworkUnavailable", words, previous, now)
}

/// Builds a condition with the given status, reason and message.
fn condition(
    kind: &str,
    [status, reason, message]: [&str; 3],
    previous: &[NodeCondition],
    now: Timestamp,
) -> NodeCondition {
    let before = previous.iter().find(|c| c.kind == kind && c.status == status);
    NodeCondition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_heartbeat: now,
        last_transition: before.map_or(now, |c| c.last_transition),
    }
}

fn info(engine: EngineState<'_>, version: &str) -> NodeInfo {
    let first_line = |path: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().next().unwrap_or_default().trim().to_owned()
    };
    let mut info = NodeInfo {
        machine_id: first_line("/etc/machine-id"),
        system_uuid: first_line("/sys/class/dmi/id/product_uuid"),
        boot_id: first_line("/proc/sys/kernel/random/boot_id"),
        kernel_version: first_line("/proc/sys/kernel/osrelease"),
        kubelet_version: version.to_owned(),
        operating_system: std::env::consts::OS.to_owned(),
        architecture: architecture().to_owned(),
        ..NodeInfo::default()
    };
    if let EngineState::Up(engine) = engine {
        info.container_runtime_version = format!("docker://{}", engine.version);
        info.os_image.clone_from(&engine.os);
    }
    info
}

/// The default labels, followed by those of `--node-labels`.
pub fn labels(options: &Options) -> BTreeMap<String, String> {
    let own = [
        ("kubernetes.io/hostname", options.node_name.as_str()),
        ("kubernetes.io/os", std::env::consts::OS),
        ("kubernetes.io/arch", architecture()),
    ];
    let own = own.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    own.chain(options.node_labels.iter().cloned()).collect()
}

/// The architecture as Go and Kubernetes name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}
