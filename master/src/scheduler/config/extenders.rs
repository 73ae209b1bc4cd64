//! Reads the `extenders` of a KubeSchedulerConfiguration.

use std::collections::HashSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::Reader;
use crate::scheduler::extender::{Extender, ExtenderClient, TlsConfig};

/// Default `httpTimeout`, as in the stock scheduler.
const TIMEOUT: Duration = Duration::from_secs(5);

type Fields = Map<String, Value>;

impl Reader {
    /// Reads all extenders. At most one may have a `bindVerb`.
    pub(super) fn extenders(&mut self, value: Option<&Value>) -> Vec<Extender> {
        let mut extenders = Vec::<Extender>::new();
        let mut managed_resources = HashSet::new();
        for (path, fields) in self.list(value, "extenders") {
            let Some(extender) = self.extender(&fields, &path) else { continue };
            if extender.bind.is_some() && extenders.iter().any(|other| other.bind.is_some()) {
                self.report(
                    &format!("{path}.bindVerb"),
                    "is set by more than one extender: only one can bind pods",
                );
            }
            if let Some(name) =
                extender.managed_resources.iter().find(|name| !managed_resources.insert((*name).clone()))
            {
                self.report(&format!("{path}.managedResources"), &format!("repeats {name}"));
            }
            extenders.push(extender);
        }
        extenders
    }

    fn extender(&mut self, fields: &Fields, path: &str) -> Option<Extender> {
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
        self.check_fields(fields, path, KNOWN);
        let url = self.text(fields, "urlPrefix", path).unwrap_or_default();
        let enabled = self.flag(fields, "enableHTTPS", path);
        let trust = self.trust(fields.get("tlsConfig"), &format!("{path}.tlsConfig"));
        let is_unverified =
            trust.as_ref().is_none_or(|(trust, is_insecure)| trust.authorities.is_none() && !is_insecure);
        if url.starts_with("https:") && !enabled && is_unverified {
            self.report(
                &format!("{path}.urlPrefix"),
                "is https without a CA: set tlsConfig.caFile or tlsConfig.caData, or enableHTTPS to skip verification",
            );
        }
        let timeout = self.timeout(fields, path);
        let trust = trust.map(|(trust, _)| trust).unwrap_or_default();
        let client = ExtenderClient::new(&url, &trust, timeout);
        let client = client
            .map_err(|error| self.report(&format!("{path}.urlPrefix"), &format!("cannot be used: {error}")));
        let prioritize = self.text(fields, "prioritizeVerb", path);
        let weight = self.number(fields, "weight", path);
        if prioritize.is_some() && weight <= 0 {
            self.report(&format!("{path}.weight"), "must be positive, since prioritizeVerb is set");
        }
        let (managed_resources, ignored_resources) = self.managed_resources(fields, path);
        Some(Extender {
            client: client.ok()?,
            filter: self.text(fields, "filterVerb", path),
            prioritize,
            preempt: self.text(fields, "preemptVerb", path),
            bind: self.text(fields, "bindVerb", path),
            weight,
            node_cache_capable: self.flag(fields, "nodeCacheCapable", path),
            managed_resources,
            ignored_resources,
            is_ignorable: self.flag(fields, "ignorable", path),
        })
    }

    /// Returns the TLS settings and the value of `insecure`, or `None` without `tlsConfig`.
    fn trust(&mut self, value: Option<&Value>, path: &str) -> Option<(TlsConfig, bool)> {
        value.filter(|value| !value.is_null())?;
        let fields = &self.object(value, path);
        const KNOWN: &[&str] =
            &["insecure", "serverName", "certFile", "keyFile", "caFile", "certData", "keyData", "caData"];
        self.check_fields(fields, path, KNOWN);
        let is_insecure = self.flag(fields, "insecure", path);
        let authorities = self.pem(fields, ("caData", "caFile"), path);
        if is_insecure && authorities.is_some() {
            self.report(&format!("{path}.insecure"), "contradicts the CA: remove one of them");
        }
        let shown = match (
            self.pem(fields, ("certData", "certFile"), path),
            self.pem(fields, ("keyData", "keyFile"), path),
        ) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                self.report(path, "needs both a certificate and a key");
                None
            }
        };
        let name = self.text(fields, "serverName", path).unwrap_or_default();
        Some((TlsConfig { authorities, name, shown }, is_insecure))
    }

    /// Returns the PEM text from the base64 field `data`, or else from the file that the field `file` names.
    fn pem(&mut self, fields: &Fields, (data, file): (&str, &str), path: &str) -> Option<String> {
        if let Some(encoded) = self.text(fields, data, path) {
            let decoded = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            if decoded.is_none() {
                self.report(&format!("{path}.{data}"), "is not base64-encoded PEM");
            }
            return decoded;
        }
        let path = self.text(fields, file, path)?;
        let read = std::fs::read_to_string(&path);
        read.map_err(|error| self.report(&format!("{path}.{file}"), &format!("cannot be read: {error}"))).ok()
    }

    fn timeout(&mut self, fields: &Fields, path: &str) -> Duration {
        let Some(text) = self.text(fields, "httpTimeout", path) else { return TIMEOUT };
        match command::duration(&text) {
            Ok(Duration::ZERO) => TIMEOUT,
            Ok(timeout) => timeout,
            Err(wanted) => {
                self.report(&format!("{path}.httpTimeout"), &wanted);
                TIMEOUT
            }
        }
    }

    /// Returns the names of the managed resources, and of those that the scheduler ignores (`ignoredByScheduler`).
    fn managed_resources(&mut self, fields: &Fields, path: &str) -> (Vec<String>, Vec<String>) {
        let (mut managed_resources, mut ignored_resources) = (Vec::new(), Vec::new());
        for (path, resource) in self.list(fields.get("managedResources"), &format!("{path}.managedResources"))
        {
            self.check_fields(&resource, &path, &["name", "ignoredByScheduler"]);
            let Some(name) = self.text(&resource, "name", &path) else {
                self.report(&format!("{path}.name"), "is no name");
                continue;
            };
            if self.flag(&resource, "ignoredByScheduler", &path) {
                ignored_resources.push(name.clone());
            }
            managed_resources.push(name);
        }
        (managed_resources, ignored_resources)
    }

    /// Returns a string field, or `None` if it is empty.
    fn text(&mut self, fields: &Fields, field: &str, path: &str) -> Option<String> {
        match fields.get(field) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()).filter(|text| !text.is_empty()),
            Some(_) => {
                self.report(&format!("{path}.{field}"), "is no text");
                None
            }
        }
    }

    fn flag(&mut self, fields: &Fields, field: &str, path: &str) -> bool {
        match fields.get(field) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                self.report(&format!("{path}.{field}"), "is neither true nor false");
                false
            }
        }
    }

    fn number(&mut self, fields: &Fields, field: &str, path: &str) -> i64 {
        match fields.get(field) {
            None | Some(Value::Null) => 0,
            Some(value) => value.as_i64().unwrap_or_else(|| {
                self.report(&format!("{path}.{field}"), "is no whole number");
                0
            }),
        }
    }
}
