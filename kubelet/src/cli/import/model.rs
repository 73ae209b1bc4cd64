//! The Compose file as types: the fields that the import converts. `rest` keeps all others, so that they are reported.
//!
//! Scalars accept strings, numbers and booleans, because an interpolated variable is always a string.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};

/// Fields that the import does not convert, by name.
pub type Rest = Map<String, Value>;

/// A scalar as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "Value")]
pub struct Text(pub String);

impl TryFrom<Value> for Text {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Ok(Self(text)),
            Value::Number(number) => Ok(Self(number.to_string())),
            Value::Bool(flag) => Ok(Self(flag.to_string())),
            other => Err(format!("expected a text, found {}", kind_of(&other))),
        }
    }
}

/// A boolean, also as the text `true` or `false`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Flag(pub bool);

impl TryFrom<Value> for Flag {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match &value {
            Value::Bool(flag) => Ok(Self(*flag)),
            Value::String(text) => text.parse().map(Self).map_err(|_| "expected true or false".to_owned()),
            other => Err(format!("expected true or false, found {}", kind_of(other))),
        }
    }
}

/// One text or a list of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Texts(pub Vec<String>);

impl TryFrom<Value> for Texts {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::Array(list) => {
                list.into_iter().map(|one| Text::try_from(one).map(|text| text.0)).collect()
            }
            one => Text::try_from(one).map(|text| vec![text.0]),
        }
        .map(Self)
    }
}

/// A command: a line that Compose splits into words, or a list of words.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub enum Words {
    /// One line, without a shell.
    Line(String),
    /// The words.
    List(Vec<String>),
}

impl TryFrom<Value> for Words {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::Array(_) => Texts::try_from(value).map(|list| Self::List(list.0)),
            one => Text::try_from(one).map(|text| Self::Line(text.0)),
        }
    }
}

/// A map, or a list of `KEY=VALUE`. A key without a value has `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Pairs(pub Vec<(String, Option<String>)>);

impl TryFrom<Value> for Pairs {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let optional = |value: Value| match value {
            Value::Null => Ok(None),
            value => Text::try_from(value).map(|text| Some(text.0)),
        };
        let entry = |value: Value| {
            let Text(text) = Text::try_from(value)?;
            Ok(match text.split_once('=') {
                Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
                None => (text, None),
            })
        };
        match value {
            Value::Object(map) => {
                let pairs = map.into_iter().map(|(key, value)| Ok((key, optional(value)?)));
                pairs.collect::<Result<_, String>>().map(Self)
            }
            Value::Array(list) => list.into_iter().map(entry).collect::<Result<_, String>>().map(Self),
            other => Err(format!("expected a map or a list, found {}", kind_of(&other))),
        }
    }
}

/// The short syntax, one text, or the long syntax, a map.
#[derive(Clone, Debug, PartialEq)]
pub enum Syntax<T> {
    /// The short syntax.
    Short(String),
    /// The long syntax.
    Long(T),
}

impl<'de, T: de::DeserializeOwned> Deserialize<'de> for Syntax<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            map @ Value::Object(_) => serde_json::from_value(map).map(Self::Long).map_err(de::Error::custom),
            other => Text::try_from(other).map(|text| Self::Short(text.0)).map_err(de::Error::custom),
        }
    }
}

/// A list of names, or a map from names to options.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Named(pub Vec<(String, Map<String, Value>)>);

impl TryFrom<Value> for Named {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let options = |value| match value {
            Value::Null => Ok(Map::new()),
            Value::Object(map) => Ok(map),
            other => Err(format!("expected a map, found {}", kind_of(&other))),
        };
        match value {
            Value::Object(map) => map
                .into_iter()
                .map(|(name, value)| Ok((name, options(value)?)))
                .collect::<Result<_, String>>(),
            list => {
                Texts::try_from(list).map(|list| list.0.into_iter().map(|name| (name, Map::new())).collect())
            }
        }
        .map(Self)
    }
}

/// One entry, or a list of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Several<T>(pub Vec<T>);

impl<T> Default for Several<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: de::DeserializeOwned> Deserialize<'de> for Several<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let list = match Value::deserialize(deserializer)? {
            Value::Array(list) => list,
            Value::Null => Vec::new(),
            one => vec![one],
        };
        let entries = list.into_iter().map(|one| serde_json::from_value(one).map_err(de::Error::custom));
        entries.collect::<Result<_, _>>().map(Self)
    }
}

/// A service of the Compose specification.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Service {
    pub image: Option<Text>,
    pub build: Option<Value>,
    pub command: Option<Words>,
    pub entrypoint: Option<Words>,
    pub environment: Option<Pairs>,
    pub env_file: Several<Syntax<EnvFile>>,
    pub ports: Option<Vec<Syntax<Port>>>,
    pub expose: Option<Texts>,
    pub volumes: Option<Vec<Syntax<Mount>>>,
    pub tmpfs: Option<Texts>,
    pub shm_size: Option<Text>,
    pub configs: Option<Vec<Syntax<FileMount>>>,
    pub secrets: Option<Vec<Syntax<FileMount>>>,
    pub healthcheck: Option<HealthCheck>,
    pub depends_on: Option<Named>,
    pub restart: Option<Text>,
    pub user: Option<Text>,
    pub group_add: Option<Texts>,
    pub working_dir: Option<Text>,
    pub hostname: Option<Text>,
    pub container_name: Option<Text>,
    pub domainname: Option<Text>,
    pub dns: Option<Texts>,
    pub dns_search: Option<Texts>,
    pub dns_opt: Option<Texts>,
    pub extra_hosts: Option<Value>,
    pub links: Option<Texts>,
    pub networks: Option<Named>,
    pub network_mode: Option<Text>,
    pub pid: Option<Text>,
    pub ipc: Option<Text>,
    pub cap_add: Option<Texts>,
    pub cap_drop: Option<Texts>,
    pub privileged: Option<Flag>,
    pub read_only: Option<Flag>,
    pub security_opt: Option<Texts>,
    pub sysctls: Option<Pairs>,
    pub stop_grace_period: Option<Text>,
    pub stop_signal: Option<Text>,
    pub mem_limit: Option<Text>,
    pub mem_reservation: Option<Text>,
    pub cpus: Option<Text>,
    pub scale: Option<Text>,
    pub deploy: Option<Deploy>,
    pub labels: Option<Pairs>,
    pub annotations: Option<Pairs>,
    pub tty: Option<Flag>,
    pub stdin_open: Option<Flag>,
    pub pull_policy: Option<Text>,
    pub profiles: Option<Texts>,
    #[serde(flatten)]
    pub rest: Rest,
}

/// Long syntax of `env_file`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct EnvFile {
    pub path: Text,
    #[serde(default)]
    pub required: Option<Flag>,
    /// `raw` turns interpolation off.
    #[serde(default)]
    pub format: Option<Text>,
}

/// Long syntax of `ports`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Port {
    pub target: Option<Text>,
    pub published: Option<Text>,
    pub host_ip: Option<Text>,
    pub protocol: Option<Text>,
    pub name: Option<Text>,
    /// `app_protocol` and `mode` have no meaning on a node.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Long syntax of `volumes`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Mount {
    #[serde(rename = "type")]
    pub kind: Option<Text>,
    pub source: Option<Text>,
    pub target: Option<Text>,
    pub read_only: Option<Flag>,
    pub bind: BindOptions,
    pub volume: VolumeOptions,
    pub tmpfs: TmpfsOptions,
    #[serde(flatten)]
    pub rest: Rest,
}

/// Options of a bind mount.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct BindOptions {
    pub propagation: Option<Text>,
    pub create_host_path: Option<Flag>,
}

/// Options of a named volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct VolumeOptions {
    pub subpath: Option<Text>,
}

/// Options of a tmpfs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TmpfsOptions {
    pub size: Option<Text>,
    pub mode: Option<Text>,
}

/// Long syntax of a service's `configs` and `secrets`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct FileMount {
    pub source: Option<Text>,
    pub target: Option<Text>,
    pub mode: Option<Text>,
    /// `uid` and `gid`.
    #[serde(flatten)]
    pub rest: Rest,
}

/// `healthcheck`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct HealthCheck {
    pub test: Option<Words>,
    pub interval: Option<Text>,
    pub timeout: Option<Text>,
    pub retries: Option<Text>,
    pub start_period: Option<Text>,
    pub start_interval: Option<Text>,
    pub disable: Option<Flag>,
    #[serde(flatten)]
    pub rest: Rest,
}

/// `deploy`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Deploy {
    pub replicas: Option<Text>,
    pub resources: Resources,
    pub restart_policy: Option<RestartPolicy>,
    pub labels: Option<Pairs>,
    #[serde(flatten)]
    pub rest: Rest,
}

/// `deploy.resources`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Resources {
    pub limits: ResourceAmounts,
    pub reservations: ResourceAmounts,
}

/// Amounts of `deploy.resources`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ResourceAmounts {
    pub cpus: Option<Text>,
    pub memory: Option<Text>,
    #[serde(flatten)]
    pub rest: Rest,
}

/// `deploy.restart_policy`. Delay and window are those of the kubelet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RestartPolicy {
    pub condition: Option<Text>,
}

/// An entry of the top-level `volumes`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NamedVolume {
    pub name: Option<Text>,
    pub external: Option<Flag>,
    pub driver: Option<Text>,
    pub driver_opts: BTreeMap<String, Text>,
}

/// An entry of the top-level `configs` and `secrets`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct FileSource {
    pub file: Option<Text>,
    pub content: Option<Text>,
    pub environment: Option<Text>,
    pub external: Option<Flag>,
    pub name: Option<Text>,
}

/// What a value is, for messages.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
