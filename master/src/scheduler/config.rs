//! Reads a KubeSchedulerConfiguration: profiles with their scoring strategy, and extenders. Unsupported fields are
//! errors.

mod extenders;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Map, Value};

use super::extender::Extender;
use super::pod::DEFAULT_SCHEDULER;

/// API version of the configuration file.
const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
const KIND: &str = "KubeSchedulerConfiguration";
/// Name of the score plugin that profiles can configure.
const FIT: &str = "NodeResourcesFit";

/// The scoring strategy of NodeResourcesFit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScoringStrategy {
    /// Prefers nodes with more free resources.
    #[default]
    LeastAllocated,
    /// Prefers nodes with less free resources.
    MostAllocated,
    /// The plugin does not score nodes.
    Disabled,
}

/// A scheduler profile, `profiles[]` of the KubeSchedulerConfiguration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name of the profile. It applies to pods with this `spec.schedulerName`.
    pub name: String,
    /// How NodeResourcesFit scores nodes.
    pub strategy: ScoringStrategy,
}

/// The configuration of the scheduler.
#[derive(Clone, Debug)]
pub struct Config {
    /// At least one profile. The names are unique.
    pub profiles: Vec<Profile>,
    /// Extenders, in calling order.
    pub extenders: Arc<[Extender]>,
}

impl Default for Config {
    fn default() -> Self {
        let usual = Profile { name: DEFAULT_SCHEDULER.to_owned(), strategy: ScoringStrategy::default() };
        Self { profiles: vec![usual], extenders: Arc::new([]) }
    }
}

impl Config {
    /// Reads the file, or returns the default configuration if there is no path.
    ///
    /// # Errors
    /// If the file cannot be read; otherwise all errors in it, one per line.
    pub fn load(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        let display = path.display();
        let text = std::fs::read(path).with_context(|| format!("cannot read {display}"))?;
        let joined = |errors: Vec<String>| {
            let lines: Vec<String> = errors.iter().map(|error| format!("{display}: {error}")).collect();
            anyhow::anyhow!(lines.join("\n"))
        };
        Self::read(&text).map_err(joined)
    }

    /// Parses a configuration in YAML or JSON.
    ///
    /// # Errors
    /// If the configuration is invalid. The error has all problems, each with its field path.
    pub fn read(text: &[u8]) -> Result<Self, Vec<String>> {
        let object = match api::decode::value(text) {
            Ok(Some(Value::Object(object))) => object,
            Ok(_) => return Err(vec![format!("is not an object; write `kind: {KIND}` and profiles")]),
            Err(problem) => return Err(vec![problem.to_string()]),
        };
        let mut reader = Reader::default();
        let config = reader.config(&object);
        if reader.errors.is_empty() { Ok(config) } else { Err(reader.errors) }
    }
}

/// Parses the configuration, and collects all errors.
#[derive(Default)]
struct Reader {
    errors: Vec<String>,
}

impl Reader {
    fn report(&mut self, path: &str, why: &str) {
        self.errors.push(format!("{path} {why}"));
    }

    fn config(&mut self, object: &Map<String, Value>) -> Config {
        self.check_fields(object, "", &["apiVersion", "kind", "profiles", "extenders"]);
        for (field, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            if object.get(field).and_then(Value::as_str) != Some(wanted) {
                self.report(field, &format!("is not {wanted}"));
            }
        }
        let mut profiles = Vec::<Profile>::new();
        for (path, profile) in self.list(object.get("profiles"), "profiles") {
            let profile = self.profile(&profile, &path);
            if profiles.iter().any(|other| other.name == profile.name) {
                self.report(&format!("{path}.schedulerName"), "is used by another profile");
            }
            profiles.push(profile);
        }
        let usual = Config::default();
        let profiles = if profiles.is_empty() { usual.profiles } else { profiles };
        Config { profiles, extenders: self.extenders(object.get("extenders")).into() }
    }

    fn profile(&mut self, profile: &Map<String, Value>, path: &str) -> Profile {
        self.check_fields(profile, path, &["schedulerName", "plugins", "pluginConfig"]);
        let name = match profile.get("schedulerName") {
            None | Some(Value::Null) => DEFAULT_SCHEDULER,
            Some(Value::String(name)) if !name.is_empty() => name,
            Some(_) => {
                self.report(&format!("{path}.schedulerName"), "is no name");
                DEFAULT_SCHEDULER
            }
        };
        let mut strategy = ScoringStrategy::default();
        let configured = format!("{path}.pluginConfig");
        for (path, plugin) in self.list(profile.get("pluginConfig"), &configured) {
            self.check_fields(&plugin, &path, &["name", "args"]);
            if plugin.get("name").and_then(Value::as_str) == Some(FIT) {
                strategy = self.strategy(&plugin, &format!("{path}.args"));
            } else {
                self.report(
                    &format!("{path}.name"),
                    &format!("is not {FIT}: no other plugin can be configured"),
                );
            }
        }
        if self.is_fit_disabled(profile, &format!("{path}.plugins")) {
            strategy = ScoringStrategy::Disabled;
        }
        Profile { name: name.to_owned(), strategy }
    }

    fn strategy(&mut self, plugin: &Map<String, Value>, path: &str) -> ScoringStrategy {
        let args = self.object(plugin.get("args"), path);
        self.check_fields(&args, path, &["apiVersion", "kind", "scoringStrategy"]);
        let path = format!("{path}.scoringStrategy");
        let strategy = self.object(args.get("scoringStrategy"), &path);
        self.check_fields(&strategy, &path, &["type", "resources"]);
        for (path, resource) in self.list(strategy.get("resources"), &format!("{path}.resources")) {
            let name = resource.get("name").and_then(Value::as_str).unwrap_or_default();
            let weight = resource.get("weight").and_then(Value::as_i64).unwrap_or(1);
            if !["cpu", "memory"].contains(&name) || weight != 1 {
                self.report(&path, "must be cpu or memory with weight 1: other resources are not scored");
            }
        }
        match strategy.get("type").and_then(Value::as_str) {
            None | Some("LeastAllocated") => ScoringStrategy::LeastAllocated,
            Some("MostAllocated") => ScoringStrategy::MostAllocated,
            Some(_) => {
                self.report(&format!("{path}.type"), "is neither LeastAllocated nor MostAllocated");
                ScoringStrategy::LeastAllocated
            }
        }
    }

    /// Whether `plugins.score.disabled` names NodeResourcesFit. No other field of `plugins` is supported.
    fn is_fit_disabled(&mut self, profile: &Map<String, Value>, path: &str) -> bool {
        let plugins = self.object(profile.get("plugins"), path);
        self.check_fields(&plugins, path, &["score"]);
        let path = format!("{path}.score");
        let score = self.object(plugins.get("score"), &path);
        self.check_fields(&score, &path, &["disabled"]);
        let disabled = self.list(score.get("disabled"), &format!("{path}.disabled"));
        for (path, plugin) in &disabled {
            if plugin.get("name").and_then(Value::as_str) != Some(FIT) {
                self.report(
                    &format!("{path}.name"),
                    &format!("is not {FIT}: no other plugin can be disabled"),
                );
            }
        }
        !disabled.is_empty()
    }

    /// Reports fields that are not in `fields`.
    fn check_fields(&mut self, object: &Map<String, Value>, path: &str, fields: &[&str]) {
        for (field, _) in
            object.iter().filter(|(field, value)| !fields.contains(&field.as_str()) && !value.is_null())
        {
            let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
            self.report(&path, &format!("is not supported; supported fields: {}", fields.join(", ")));
        }
    }

    fn object(&mut self, value: Option<&Value>, path: &str) -> Map<String, Value> {
        match value {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(object)) => object.clone(),
            Some(_) => {
                self.report(path, "is no object");
                Map::new()
            }
        }
    }

    /// Returns the objects of a list, each with its field path.
    fn list(&mut self, value: Option<&Value>, path: &str) -> Vec<(String, Map<String, Value>)> {
        let items = match value {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(items)) => items.as_slice(),
            Some(_) => {
                self.report(path, "is no list");
                return Vec::new();
            }
        };
        let placed = items.iter().enumerate().map(|(number, item)| (format!("{path}[{number}]"), item));
        placed.map(|(path, item)| (path.clone(), self.object(Some(item), &path))).collect()
    }
}

#[cfg(test)]
mod tests;
