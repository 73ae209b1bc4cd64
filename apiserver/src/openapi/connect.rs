//! OpenAPI paths of streaming subresources: exec, attach, portforward, proxy and log.

use serde_json::Value;

use super::operation::Operation;
use super::operation::camel;
use super::parameters::{self, Parameter};
use super::paths::Paths;
use super::schema::group_version_kind;
use crate::resource::{Resource, Subresource};

/// The proxy subresource, which has a second path with the proxied path as a parameter.
const PROXY: &str = "proxy";
const LOG: &str = "log";

impl Paths<'_> {
    /// Paths of a streaming subresource.
    pub(super) fn stream(&self, part: &Subresource) -> Vec<(String, Value)> {
        let path = self.path(true, &["{name}", part.name]);
        let own = (path, self.at(&["name", "namespace"], self.connections(part, "")));
        if part.name != PROXY {
            return vec![own];
        }
        let beyond = self.path(true, &["{name}", part.name, "{path}"]);
        vec![own, (beyond, self.at(&["name", "namespace", "path"], self.connections(part, "WithPath")))]
    }

    fn connections(&self, part: &Subresource, suffix: &str) -> Vec<Operation> {
        let methods = [
            ("create", "post", "Post"),
            ("delete", "delete", "Delete"),
            ("get", "get", "Get"),
            ("patch", "patch", "Patch"),
            ("update", "put", "Put"),
        ];
        let methods = methods.into_iter().filter(|(verb, ..)| part.verbs.contains(verb));
        methods.map(|(_, method, name)| self.connection(part, suffix, method, name)).collect()
    }

    fn connection(&self, part: &Subresource, suffix: &str, method: &'static str, name: &str) -> Operation {
        let Resource { group, version, kind, .. } = self.resource;
        let group_name = if group.is_empty() { "core" } else { group.as_ref() };
        let group_version = format!("{}{}", camel(group_name), camel(version));
        let namespaced = if self.resource.namespaced { "Namespaced" } else { "" };
        let (of_group, of_version, of_kind) = part.kind.unwrap_or((group, version, kind));
        let api_version =
            if of_group.is_empty() { of_version.to_owned() } else { format!("{of_group}/{of_version}") };
        let part_name = camel(part.name);
        let (action, id, description) = if part.name == LOG {
            let id = format!("read{group_version}{namespaced}{kind}{part_name}");
            ("get", id, format!("read log of objects of kind {kind}"))
        } else {
            let id = format!("connect{group_version}{name}{namespaced}{kind}{part_name}{suffix}");
            ("connect", id, format!("connect {} requests to {} of {kind}", method.to_uppercase(), part.name))
        };
        Operation {
            method,
            id,
            description,
            tag: self.tag(),
            action,
            kind: group_version_kind(&api_version, of_kind),
            parameters: query(part.name),
            body: None,
            codes: &[200],
            answer: None,
            failure: self.references.status.clone(),
        }
    }
}

/// Query parameters of a subresource.
fn query(part: &str) -> &'static [Parameter] {
    match part {
        "attach" => parameters::ATTACH,
        "exec" => parameters::EXEC,
        LOG => parameters::LOG,
        "portforward" => parameters::PORT_FORWARD,
        PROXY => parameters::PROXY,
        _ => &[],
    }
}
