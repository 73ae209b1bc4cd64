//! What can be done with a resource, path by path.

use serde_json::{Map, Value, json};

use super::names::camel;
use super::operation::{Body, Operation};
use super::parameters::{self, Parameter};
use super::schema::Dialect;
use crate::resource::{Resource, Subresource};

const NAME: &str = "Which of them.";
const NAMESPACE: &str = "Where they are.";

/// What objects look like at a path.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    /// One of them; nothing where text is answered.
    pub one: Option<Value>,
    /// Their kind, as clients look it up.
    pub kind: Value,
}

/// What the paths of a resource refer to.
#[derive(Debug)]
pub(super) struct References {
    /// Its objects.
    pub objects: Objects,
    /// Lists of them.
    pub list: Value,
    /// What may be asked of a deletion.
    pub delete_options: Value,
    /// What failed requests, and some others, are answered with.
    pub status: Value,
    /// The objects are of a kind that is built in, which alone has strategic merge patches.
    pub built_in: bool,
}

/// The paths of one resource.
pub(super) struct Paths<'a> {
    /// The row.
    pub resource: &'a Resource,
    /// What they refer to.
    pub references: &'a References,
    /// The version of OpenAPI.
    pub dialect: Dialect,
}

impl Paths<'_> {
    /// The paths of the resource itself.
    pub(super) fn main(&self) -> Vec<(String, Value)> {
        let objects = &self.references.objects;
        let mut paths = vec![];
        if self.resource.namespaced && self.verb("list") {
            let all = self.operation("list", "ForAllNamespaces", objects);
            paths.push((self.path(false, &[]), self.at([], vec![all])));
        }
        let mut collection = vec![];
        collection.extend(self.verb("list").then(|| self.operation("list", "", objects)));
        collection.extend(self.verb("create").then(|| self.operation("post", "", objects)));
        collection
            .extend(self.verb("deletecollection").then(|| self.operation("deletecollection", "", objects)));
        paths.push((self.path(true, &[]), self.at(["namespace"], collection)));
        let of_verb = [("get", "get"), ("update", "put"), ("patch", "patch"), ("delete", "delete")];
        let one = of_verb.into_iter().filter(|(verb, _)| self.verb(verb));
        let one = one.map(|(_, action)| self.operation(action, "", objects)).collect();
        paths.push((self.path(true, &["{name}"]), self.at(["name", "namespace"], one)));
        paths.retain(|(_, document)| document.as_object().is_some_and(|document| !document.is_empty()));
        paths
    }

    /// The path of a part of its objects.
    pub(super) fn part(&self, part: &Subresource, objects: &Objects) -> (String, Value) {
        let of_verb = [("get", "get"), ("create", "post"), ("update", "put"), ("patch", "patch")];
        let operations = of_verb.into_iter().filter(|(verb, _)| part.verbs.contains(verb));
        let operations = operations.map(|(_, action)| self.operation(action, &camel(part.name), objects));
        let path = self.path(true, &["{name}", part.name]);
        (path, self.at(["name", "namespace"], operations.collect()))
    }

    fn verb(&self, verb: &str) -> bool {
        self.resource.verbs.contains(&verb)
    }

    fn path(&self, in_namespace: bool, rest: &[&str]) -> String {
        let Resource { group, version, plural, .. } = self.resource;
        let mut path =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        if in_namespace && self.resource.namespaced {
            path.push_str("/namespaces/{namespace}");
        }
        for part in [plural.as_ref()].iter().chain(rest) {
            path.push('/');
            path.push_str(part);
        }
        path
    }

    /// What stands at a path whose parameters are these; nothing where nothing can be done.
    fn at<const N: usize>(&self, parameters: [&str; N], operations: Vec<Operation>) -> Value {
        let mut document = Map::new();
        for operation in operations {
            document.insert(operation.method.to_owned(), operation.document(self.dialect));
        }
        let parameters: Vec<Value> = parameters
            .into_iter()
            .filter(|name| *name != "namespace" || self.resource.namespaced)
            .map(|name| {
                let said = if name == "namespace" { NAMESPACE } else { NAME };
                parameters::of_path(name, said, self.dialect)
            })
            .collect();
        if !document.is_empty() && !parameters.is_empty() {
            document.insert("parameters".to_owned(), parameters.into());
        }
        document.into()
    }

    /// What `action` does; `suffix` tells it from the same done elsewhere.
    fn operation(&self, action: &'static str, suffix: &str, objects: &Objects) -> Operation {
        let References { list, delete_options, status, .. } = self.references;
        let Resource { group, version, kind, .. } = self.resource;
        let one = objects.one.clone();
        let object = || Some(Body::Object { schema: one.clone().unwrap_or_default(), optional: false });
        let options = || Some(Body::Object { schema: delete_options.clone(), optional: true });
        type Parts = (
            &'static str,
            &'static str,
            &'static str,
            &'static [Parameter],
            Option<Body>,
            &'static [u16],
            Option<Value>,
        );
        let (method, verb, said, parameters, body, codes, answer): Parts = match action {
            "list" => ("get", "list", "list or watch", parameters::LIST, None, &[200], Some(list.clone())),
            "post" => {
                ("post", "create", "create", parameters::WRITE, object(), &[200, 201, 202], one.clone())
            }
            "put" => ("put", "replace", "replace", parameters::WRITE, object(), &[200, 201], one.clone()),
            "patch" => {
                let body = Some(Body::Patch(self.patches()));
                ("patch", "patch", "partially update", parameters::PATCH, body, &[200, 201], one.clone())
            }
            "delete" => {
                // A Status, or the object when it has yet to end.
                let answer = Some(json!({"type": "object"}));
                ("delete", "delete", "delete", parameters::DELETE, options(), &[200, 202], answer)
            }
            "deletecollection" => {
                let answer = Some(json!({"type": "object"}));
                let parameters = parameters::DELETE_COLLECTION;
                ("delete", "delete", "delete many", parameters, options(), &[200], answer)
            }
            _ => ("get", "read", "read", &[], None, &[200], one.clone()),
        };
        let group_name = if group.is_empty() { "core" } else { group.as_ref() };
        let collection = if action == "deletecollection" { "Collection" } else { "" };
        let namespaced =
            if self.resource.namespaced && suffix != "ForAllNamespaces" { "Namespaced" } else { "" };
        let group_version = format!("{}{}", camel(group_name), camel(version));
        Operation {
            method,
            id: format!("{verb}{group_version}{collection}{namespaced}{kind}{suffix}"),
            said: format!("{said} objects of kind {kind}"),
            tag: format!("{}_{version}", group_name.trim_end_matches(".k8s.io").replace('.', "_")),
            action,
            kind: objects.kind.clone(),
            parameters,
            body,
            codes,
            answer,
            failure: status.clone(),
        }
    }

    fn patches(&self) -> Vec<(&'static str, Value)> {
        let object = || json!({"type": "object"});
        let mut forms = vec![
            ("application/apply-patch+yaml", object()),
            ("application/json-patch+json", json!({"type": "array", "items": {"type": "object"}})),
            ("application/merge-patch+json", object()),
        ];
        if self.references.built_in {
            forms.push(("application/strategic-merge-patch+json", object()));
        }
        forms
    }
}
