//! A KubeSchedulerConfiguration: which schedulers there are by name, how each scores nodes, and who is asked besides. What is not
//! known here is refused.

mod extenders;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Map, Value};

use super::extender::Extender;
use super::pod::DEFAULT_SCHEDULER;

/// The group and versions of such a file, and its kind.
const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
const KIND: &str = "KubeSchedulerConfiguration";
/// The part of a profile that room on nodes is scored by.
const FIT: &str = "NodeResourcesFit";

/// Which nodes are better by how much of them is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Those of which less is.
    #[default]
    Least,
    /// Those of which more is.
    Most,
    /// None.
    Neither,
}

/// A scheduler by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// What pods call it.
    pub name: String,
    /// How it scores nodes by what is taken of them.
    pub strategy: Strategy,
}

/// What was set.
#[derive(Clone, Debug)]
pub struct Config {
    /// At least one, each of another name.
    pub profiles: Vec<Profile>,
    /// Who is asked besides, in that order.
    pub extenders: Arc<[Extender]>,
}

impl Default for Config {
    fn default() -> Self {
        let usual = Profile { name: DEFAULT_SCHEDULER.to_owned(), strategy: Strategy::default() };
        Self { profiles: vec![usual], extenders: Arc::new([]) }
    }
}

impl Config {
    /// Reads the file, or is the usual one where there is none.
    ///
    /// # Errors
    /// When it cannot be read, or with all that is wrong in it.
    pub fn load(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        let shown = path.display();
        let text = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
        let told = |mistakes: Vec<String>| {
            let lines: Vec<String> = mistakes.iter().map(|mistake| format!("{shown}: {mistake}")).collect();
            anyhow::anyhow!(lines.join("\n"))
        };
        Self::read(&text).map_err(told)
    }

    /// Reads the text of a file, YAML or JSON.
    ///
    /// # Errors
    /// All the mistakes, each with where it is.
    pub fn read(text: &[u8]) -> Result<Self, Vec<String>> {
        let object = match api::decode::value(text) {
            Ok(Some(Value::Object(object))) => object,
            Ok(_) => return Err(vec![format!("is no object; write `kind: {KIND}` and profiles")]),
            Err(problem) => return Err(vec![problem.to_string()]),
        };
        let mut reader = Reader::default();
        let config = reader.config(&object);
        if reader.mistakes.is_empty() { Ok(config) } else { Err(reader.mistakes) }
    }
}

/// Reads, and notes what is wrong.
#[derive(Default)]
struct Reader {
    mistakes: Vec<String>,
}

impl Reader {
    fn refuse(&mut self, place: &str, why: &str) {
        self.mistakes.push(format!("{place} {why}"));
    }

    fn config(&mut self, object: &Map<String, Value>) -> Config {
        self.known(object, "", &["apiVersion", "kind", "profiles", "extenders"]);
        for (field, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            if object.get(field).and_then(Value::as_str) != Some(wanted) {
                self.refuse(field, &format!("is not {wanted}"));
            }
        }
        let mut profiles = Vec::<Profile>::new();
        for (place, profile) in self.list(object.get("profiles"), "profiles") {
            let profile = self.profile(&profile, &place);
            if profiles.iter().any(|other| other.name == profile.name) {
                self.refuse(&format!("{place}.schedulerName"), "is that of another profile");
            }
            profiles.push(profile);
        }
        let usual = Config::default();
        let profiles = if profiles.is_empty() { usual.profiles } else { profiles };
        Config { profiles, extenders: self.extenders(object.get("extenders")).into() }
    }

    fn profile(&mut self, profile: &Map<String, Value>, place: &str) -> Profile {
        self.known(profile, place, &["schedulerName", "plugins", "pluginConfig"]);
        let name = match profile.get("schedulerName") {
            None | Some(Value::Null) => DEFAULT_SCHEDULER,
            Some(Value::String(name)) if !name.is_empty() => name,
            Some(_) => {
                self.refuse(&format!("{place}.schedulerName"), "is no name");
                DEFAULT_SCHEDULER
            }
        };
        let mut strategy = Strategy::default();
        let configured = format!("{place}.pluginConfig");
        for (place, plugin) in self.list(profile.get("pluginConfig"), &configured) {
            self.known(&plugin, &place, &["name", "args"]);
            if plugin.get("name").and_then(Value::as_str) == Some(FIT) {
                strategy = self.strategy(&plugin, &format!("{place}.args"));
            } else {
                self.refuse(&format!("{place}.name"), &format!("is not {FIT}: nothing else can be set"));
            }
        }
        if self.is_fit_disabled(profile, &format!("{place}.plugins")) {
            strategy = Strategy::Neither;
        }
        Profile { name: name.to_owned(), strategy }
    }

    fn strategy(&mut self, plugin: &Map<String, Value>, place: &str) -> Strategy {
        let args = self.object(plugin.get("args"), place);
        self.known(&args, place, &["apiVersion", "kind", "scoringStrategy"]);
        let place = format!("{place}.scoringStrategy");
        let strategy = self.object(args.get("scoringStrategy"), &place);
        self.known(&strategy, &place, &["type", "resources"]);
        for (place, resource) in self.list(strategy.get("resources"), &format!("{place}.resources")) {
            let name = resource.get("name").and_then(Value::as_str).unwrap_or_default();
            let weight = resource.get("weight").and_then(Value::as_i64).unwrap_or(1);
            if !["cpu", "memory"].contains(&name) || weight != 1 {
                self.refuse(&place, "is neither cpu nor memory with weight 1: nothing else is scored");
            }
        }
        match strategy.get("type").and_then(Value::as_str) {
            None | Some("LeastAllocated") => Strategy::Least,
            Some("MostAllocated") => Strategy::Most,
            Some(_) => {
                self.refuse(&format!("{place}.type"), "is neither LeastAllocated nor MostAllocated");
                Strategy::Least
            }
        }
    }

    /// Whether room is not scored by: all of `plugins` that can be set.
    fn is_fit_disabled(&mut self, profile: &Map<String, Value>, place: &str) -> bool {
        let plugins = self.object(profile.get("plugins"), place);
        self.known(&plugins, place, &["score"]);
        let place = format!("{place}.score");
        let score = self.object(plugins.get("score"), &place);
        self.known(&score, &place, &["disabled"]);
        let disabled = self.list(score.get("disabled"), &format!("{place}.disabled"));
        for (place, plugin) in &disabled {
            if plugin.get("name").and_then(Value::as_str) != Some(FIT) {
                self.refuse(&format!("{place}.name"), &format!("is not {FIT}: nothing else can be left out"));
            }
        }
        !disabled.is_empty()
    }

    /// Refuses fields that are none of these.
    fn known(&mut self, object: &Map<String, Value>, place: &str, fields: &[&str]) {
        for (field, _) in
            object.iter().filter(|(field, value)| !fields.contains(&field.as_str()) && !value.is_null())
        {
            let place = if place.is_empty() { field.clone() } else { format!("{place}.{field}") };
            self.refuse(&place, &format!("cannot be set: know {}", fields.join(", ")));
        }
    }

    fn object(&mut self, value: Option<&Value>, place: &str) -> Map<String, Value> {
        match value {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(object)) => object.clone(),
            Some(_) => {
                self.refuse(place, "is no object");
                Map::new()
            }
        }
    }

    /// Objects of a list, each with its place.
    fn list(&mut self, value: Option<&Value>, place: &str) -> Vec<(String, Map<String, Value>)> {
        let items = match value {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(items)) => items.as_slice(),
            Some(_) => {
                self.refuse(place, "is no list");
                return Vec::new();
            }
        };
        let placed = items.iter().enumerate().map(|(number, item)| (format!("{place}[{number}]"), item));
        placed.map(|(place, item)| (place.clone(), self.object(Some(item), &place))).collect()
    }
}

#[cfg(test)]
mod tests;
