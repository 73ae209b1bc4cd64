//! The `extenders` of a KubeSchedulerConfiguration.

use std::collections::HashSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::Reader;
use crate::scheduler::extender::{Caller, Extender, Trust};

/// How long an answer may take that nothing else is said of; the stock scheduler's.
const TIMEOUT: Duration = Duration::from_secs(5);

type Fields = Map<String, Value>;

impl Reader {
    /// All of them; at most one gives pods their nodes.
    pub(super) fn extenders(&mut self, value: Option<&Value>) -> Vec<Extender> {
        let mut extenders = Vec::<Extender>::new();
        let mut managed = HashSet::new();
        for (place, fields) in self.list(value, "extenders") {
            let Some(extender) = self.extender(&fields, &place) else { continue };
            if extender.bind.is_some() && extenders.iter().any(|other| other.bind.is_some()) {
                self.refuse(
                    &format!("{place}.bindVerb"),
                    "is a second one: only one extender gives pods their nodes",
                );
            }
            if let Some(name) = extender.managed.iter().find(|name| !managed.insert((*name).clone())) {
                self.refuse(
                    &format!("{place}.managedResources"),
                    &format!("names {name}, as was done before"),
                );
            }
            extenders.push(extender);
        }
        extenders
    }

    fn extender(&mut self, fields: &Fields, place: &str) -> Option<Extender> {
        const KNOWN: &[&str] = &[
            "urlPrefix",
            "filterVerb",
            "preemptVerb",
            "prioritizeVerb",
            "weight",
            "bindVerb",
            "enableHTTPS",
            "tlsConfig",
            "httpTimeout",
            "nodeCacheCapable",
            "managedResources",
            "ignorable",
        ];
        self.known(fields, place, KNOWN);
        let url = self.text(fields, "urlPrefix", place).unwrap_or_default();
        let enabled = self.flag(fields, "enableHTTPS", place);
        let trust = self.trust(fields.get("tlsConfig"), &format!("{place}.tlsConfig"));
        let is_blind =
            trust.as_ref().is_none_or(|(trust, is_insecure)| trust.authorities.is_none() && !is_insecure);
        if url.starts_with("https:") && !enabled && is_blind {
            self.refuse(
                &format!("{place}.urlPrefix"),
                "is https without an authority: set tlsConfig.caFile or tlsConfig.caData, or enableHTTPS to believe anybody",
            );
        }
        let timeout = self.timeout(fields, place);
        let trust = trust.map(|(trust, _)| trust).unwrap_or_default();
        let caller = Caller::new(&url, &trust, timeout);
        let caller = caller
            .map_err(|error| self.refuse(&format!("{place}.urlPrefix"), &format!("cannot be used: {error}")));
        let prioritize = self.text(fields, "prioritizeVerb", place);
        let weight = self.number(fields, "weight", place);
        if prioritize.is_some() && weight <= 0 {
            self.refuse(
                &format!("{place}.weight"),
                "is not positive, and what prioritizeVerb says counts so often",
            );
        }
        let (managed, unheeded) = self.managed(fields, place);
        Some(Extender {
            caller: caller.ok()?,
            filter: self.text(fields, "filterVerb", place),
            prioritize,
            preempt: self.text(fields, "preemptVerb", place),
            bind: self.text(fields, "bindVerb", place),
            weight,
            knows_nodes: self.flag(fields, "nodeCacheCapable", place),
            managed,
            unheeded,
            is_ignorable: self.flag(fields, "ignorable", place),
        })
    }

    /// Whom to believe and what to show, and whether it is said that anybody is to be believed; `None` where nothing is set.
    fn trust(&mut self, value: Option<&Value>, place: &str) -> Option<(Trust, bool)> {
        value.filter(|value| !value.is_null())?;
        let fields = &self.object(value, place);
        const KNOWN: &[&str] =
            &["insecure", "serverName", "certFile", "keyFile", "caFile", "certData", "keyData", "caData"];
        self.known(fields, place, KNOWN);
        let is_insecure = self.flag(fields, "insecure", place);
        let authorities = self.pem(fields, ("caData", "caFile"), place);
        if is_insecure && authorities.is_some() {
            self.refuse(
                &format!("{place}.insecure"),
                "is set, and so is an authority: leave one of them out",
            );
        }
        let shown = match (
            self.pem(fields, ("certData", "certFile"), place),
            self.pem(fields, ("keyData", "keyFile"), place),
        ) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                self.refuse(place, "has a certificate or a key and not the other");
                None
            }
        };
        let name = self.text(fields, "serverName", place).unwrap_or_default();
        Some((Trust { authorities, name, shown }, is_insecure))
    }

    /// What stands in a field in base64, or else in the file that another one names.
    fn pem(&mut self, fields: &Fields, (data, file): (&str, &str), place: &str) -> Option<String> {
        if let Some(encoded) = self.text(fields, data, place) {
            let decoded = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            if decoded.is_none() {
                self.refuse(&format!("{place}.{data}"), "is no PEM in base64");
            }
            return decoded;
        }
        let path = self.text(fields, file, place)?;
        let read = std::fs::read_to_string(&path);
        read.map_err(|error| self.refuse(&format!("{place}.{file}"), &format!("cannot be read: {error}")))
            .ok()
    }

    fn timeout(&mut self, fields: &Fields, place: &str) -> Duration {
        let Some(text) = self.text(fields, "httpTimeout", place) else { return TIMEOUT };
        match command::duration(&text) {
            Ok(Duration::ZERO) => TIMEOUT,
            Ok(timeout) => timeout,
            Err(wanted) => {
                self.refuse(&format!("{place}.httpTimeout"), &wanted);
                TIMEOUT
            }
        }
    }

    /// The names of resources, and those of them that nobody else counts.
    fn managed(&mut self, fields: &Fields, place: &str) -> (Vec<String>, Vec<String>) {
        let (mut managed, mut unheeded) = (Vec::new(), Vec::new());
        for (place, resource) in
            self.list(fields.get("managedResources"), &format!("{place}.managedResources"))
        {
            self.known(&resource, &place, &["name", "ignoredByScheduler"]);
            let Some(name) = self.text(&resource, "name", &place) else {
                self.refuse(&format!("{place}.name"), "is no name");
                continue;
            };
            if self.flag(&resource, "ignoredByScheduler", &place) {
                unheeded.push(name.clone());
            }
            managed.push(name);
        }
        (managed, unheeded)
    }

    /// A text that is not empty.
    fn text(&mut self, fields: &Fields, field: &str, place: &str) -> Option<String> {
        match fields.get(field) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()).filter(|text| !text.is_empty()),
            Some(_) => {
                self.refuse(&format!("{place}.{field}"), "is no text");
                None
            }
        }
    }

    fn flag(&mut self, fields: &Fields, field: &str, place: &str) -> bool {
        match fields.get(field) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                self.refuse(&format!("{place}.{field}"), "is neither true nor false");
                false
            }
        }
    }

    fn number(&mut self, fields: &Fields, field: &str, place: &str) -> i64 {
        match fields.get(field) {
            None | Some(Value::Null) => 0,
            Some(value) => value.as_i64().unwrap_or_else(|| {
                self.refuse(&format!("{place}.{field}"), "is no whole number");
                0
            }),
        }
    }
}
