//! Reads the `--config` file: a MasterConfiguration, whose fields are the flags of `master run` in camel case.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::args::RunFlags;

const API_VERSION: &str = "config.coracle.io/v1";
/// The API version before version 0.2, which is still accepted in files.
const FORMER_API_VERSION: &str = "master/v1";
const KIND: &str = "MasterConfiguration";

/// The parsed file.
#[derive(Debug, Default)]
pub struct Found {
    /// The fields of the file as flags.
    pub flags: RunFlags,
    /// The field `dataDir`.
    pub data_dir: Option<PathBuf>,
    /// Errors, one per line.
    pub mistakes: Vec<String>,
}

/// The variable that a field sets.
enum Slot<'a> {
    One(&'a mut Option<String>),
    Many(&'a mut Vec<String>),
}

type Place = for<'a> fn(&'a mut RunFlags) -> Slot<'a>;

/// All fields by flag name.
const FIELDS: &[(&str, Place)] = &[
    ("--bind-address", |f| Slot::One(&mut f.bind_address)),
    ("--secure-port", |f| Slot::One(&mut f.secure_port)),
    ("--advertise-address", |f| Slot::One(&mut f.advertise_address)),
    ("--tls-san", |f| Slot::Many(&mut f.tls_san)),
    ("--enable-admission-plugins", |f| Slot::Many(&mut f.enable_admission_plugins)),
    ("--disable-admission-plugins", |f| Slot::Many(&mut f.disable_admission_plugins)),
    ("--storage", |f| Slot::One(&mut f.storage)),
    ("--etcd-servers", |f| Slot::Many(&mut f.etcd_servers)),
    ("--etcd-cafile", |f| Slot::One(&mut f.etcd_cafile)),
    ("--etcd-certfile", |f| Slot::One(&mut f.etcd_certfile)),
    ("--etcd-keyfile", |f| Slot::One(&mut f.etcd_keyfile)),
    ("--csr-approval-policy", |f| Slot::One(&mut f.csr_approval_policy)),
    ("--csr-approval-allowlist", |f| Slot::Many(&mut f.csr_approval_allowlist)),
    ("--csr-approval-webhook", |f| Slot::One(&mut f.csr_approval_webhook)),
    ("--cluster-signing-duration", |f| Slot::One(&mut f.cluster_signing_duration)),
    ("--serving-cert-duration", |f| Slot::One(&mut f.serving_cert_duration)),
    ("--kubelet-preferred-address-types", |f| Slot::Many(&mut f.kubelet_preferred_address_types)),
    ("--node-admission", |f| Slot::One(&mut f.node_admission)),
    ("--node-allowlist", |f| Slot::Many(&mut f.node_allowlist)),
    ("--node-monitor-grace-period", |f| Slot::One(&mut f.node_monitor_grace_period)),
    ("--node-eviction-rate", |f| Slot::One(&mut f.node_eviction_rate)),
    ("--cluster-cidr", |f| Slot::Many(&mut f.cluster_cidr)),
    ("--allocate-node-cidrs", |f| Slot::One(&mut f.allocate_node_cidrs)),
    ("--node-cidr-mask-size", |f| Slot::One(&mut f.node_cidr_mask_size)),
    ("--node-cidr-mask-size-ipv4", |f| Slot::One(&mut f.node_cidr_mask_size_ipv4)),
    ("--node-cidr-mask-size-ipv6", |f| Slot::One(&mut f.node_cidr_mask_size_ipv6)),
    ("--service-cluster-ip-range", |f| Slot::Many(&mut f.service_cluster_ip_range)),
    ("--cluster-domain", |f| Slot::One(&mut f.cluster_domain)),
    ("--controllers", |f| Slot::One(&mut f.controllers)),
    ("--scheduling-gates", |f| Slot::Many(&mut f.scheduling_gates)),
    ("--scheduler", |f| Slot::One(&mut f.scheduler)),
    ("--scheduler-config", |f| Slot::One(&mut f.scheduler_config)),
    ("--addons", |f| Slot::One(&mut f.addons)),
    ("--v", |f| Slot::One(&mut f.v)),
    ("--log-format", |f| Slot::One(&mut f.log_format)),
];

/// The field for `--data-dir`, which is a global flag.
const DATA_DIR: &str = "dataDir";

/// Parses a file, YAML or JSON.
pub fn read(file: &[u8]) -> Found {
    let mut found = Found::default();
    match api::decode::value(file) {
        Ok(Some(Value::Object(object))) => found.apply(&object),
        Ok(_) => {
            found.mistakes.push(format!("is not an object; write `kind: {KIND}` and fields"));
        }
        Err(problem) => found.mistakes.push(problem.to_string()),
    }
    found
}

impl Found {
    fn apply(&mut self, object: &Map<String, Value>) {
        match object.get("kind").and_then(Value::as_str) {
            Some(KIND) => {}
            Some(other) => self.mistakes.push(format!("kind: \"{other}\" is not {KIND}")),
            None => self.mistakes.push(format!("kind is missing; write `kind: {KIND}`")),
        }
        for (name, value) in object.iter().filter(|(name, value)| *name != "kind" && !value.is_null()) {
            let place = FIELDS.iter().find(|(flag, _)| field(flag) == *name).map(|(_, place)| place);
            let read = match (name.as_str(), place) {
                ("apiVersion", _) if value == API_VERSION || value == FORMER_API_VERSION => Ok(()),
                ("apiVersion", _) => Err(format!("is not {API_VERSION}")),
                (DATA_DIR, _) => scalar(value).map(|path| self.data_dir = Some(PathBuf::from(path))),
                (_, Some(place)) => match place(&mut self.flags) {
                    Slot::One(into) => scalar(value).map(|text| *into = Some(text)),
                    Slot::Many(into) => list(value).map(|texts| *into = texts),
                },
                (_, None) => {
                    self.mistakes.push(format!("{name} is not a field of {KIND}{}", nearest(name)));
                    continue;
                }
            };
            if let Err(wanted) = read {
                self.mistakes.push(format!("{name}: {value} {wanted}"));
            }
        }
    }
}

/// The field name of a flag, such as `securePort` for `--secure-port`.
pub fn field(flag: &str) -> String {
    let mut words = flag.trim_start_matches('-').split('-');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Err("is not a single value".to_owned()),
    }
}

fn list(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Array(items) => {
            items.iter().map(scalar).collect::<Result<_, _>>().map_err(|_| "is no list of texts".to_owned())
        }
        other => scalar(other).map(|text| vec![text]).map_err(|_| "is no list of texts".to_owned()),
    }
}

fn nearest(name: &str) -> String {
    let all: Vec<String> = FIELDS.iter().map(|(flag, _)| field(flag)).chain([DATA_DIR.to_owned()]).collect();
    api::schema::nearest(name, all.iter().map(String::as_str))
        .map(|field| format!("; did you mean {field}?"))
        .unwrap_or_default()
}
