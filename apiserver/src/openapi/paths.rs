//! OpenAPI paths of a resource and its operations.

use serde_json::{Map, Value, json};

use super::operation::camel;
use super::operation::{Body, Operation};
use super::parameters::{self, Parameter};
use super::schema::Dialect;
use crate::resource::{Resource, Subresource};

const NAME: &str = "Name of the object.";
const NAMESPACE: &str = "Namespace of the object.";
const BEYOND: &str = "The path of the request behind the proxy.";

/// The schema of the objects at a path.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    /// Schema of one object, or `None` for plain text.
    pub one: Option<Value>,
    /// The extension `x-kubernetes-group-version-kind`.
    pub kind: Value,
}

/// Schemas that the paths of a resource refer to.
#[derive(Debug)]
pub(super) struct References {
    /// Schema of the object.
    pub objects: Objects,
    /// Schema of the list.
    pub list: Value,
    /// Schema of DeleteOptions.
    pub delete_options: Value,
    /// Schema of Status.
    pub status: Value,
    /// True if the kind is built in, so that it supports strategic merge patches.
    pub built_in: bool,
}

/// The paths of one resource.
pub(super) struct Paths<'a> {
    /// The resource that the paths serve.
    pub resource: &'a Resource,
    /// The schemas to which the paths refer.
    pub references: &'a References,
    /// OpenAPI version.
    pub dialect: Dialect,
}

impl Paths<'_> {
    /// Returns the paths of the collection and of single objects.
    pub(super) fn main(&self) -> Vec<(String, Value)> {
        let objects = &self.references.objects;
        let mut paths = vec![];
        if self.resource.namespaced && self.verb("list") {
            let all = self.operation("list", "ForAllNamespaces", objects);
            paths.push((self.path(false, &[]), self.at(&[], vec![all])));
        }
        let mut collection = vec![];
        collection.extend(self.verb("list").then(|| self.operation("list", "", objects)));
        collection.extend(self.verb("create").then(|| self.operation("post", "", objects)));
        collection
            .extend(self.verb("deletecollection").then(|| self.operation("deletecollection", "", objects)));
        paths.push((self.path(true, &[]), self.at(&["namespace"], collection)));
        let of_verb = [("get", "get"), ("update", "put"), ("patch", "patch"), ("delete", "delete")];
        let one = of_verb.into_iter().filter(|(verb, _)| self.verb(verb));
        let one = one.map(|(_, action)| self.operation(action, "", objects)).collect();
        paths.push((self.path(true, &["{name}"]), self.at(&["name", "namespace"], one)));
        paths.retain(|(_, document)| document.as_object().is_some_and(|document| !document.is_empty()));
        paths
    }

    /// Returns the path of a subresource.
    pub(super) fn part(&self, part: &Subresource, objects: &Objects) -> (String, Value) {
        let of_verb = [("get", "get"), ("create", "post"), ("update", "put"), ("patch", "patch")];
        let operations = of_verb.into_iter().filter(|(verb, _)| part.verbs.contains(verb));
        let operations = operations.map(|(_, action)| self.operation(action, &camel(part.name), objects));
        let path = self.path(true, &["{name}", part.name]);
        (path, self.at(&["name", "namespace"], operations.collect()))
    }

    fn verb(&self, verb: &str) -> bool {
        self.resource.verbs.contains(&verb)
    }

    pub(super) fn path(&self, in_namespace: bool, rest: &[&str]) -> String {
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

    /// Returns the path item with these path parameters; empty without operations.
    pub(super) fn at(&self, parameters: &[&str], operations: Vec<Operation>) -> Value {
        let mut document = Map::new();
        for operation in operations {
            document.insert(operation.method.to_owned(), operation.document(self.dialect));
        }
        let parameters: Vec<Value> = parameters
            .iter()
            .filter(|name| **name != "namespace" || self.resource.namespaced)
            .map(|name| {
                let description = match *name {
                    "namespace" => NAMESPACE,
                    "path" => BEYOND,
                    _ => NAME,
                };
                parameters::of_path(name, description, self.dialect)
            })
            .collect();
        if !document.is_empty() && !parameters.is_empty() {
            document.insert("parameters".to_owned(), parameters.into());
        }
        document.into()
    }

    /// Returns the operation for `action`. `suffix` makes its ID unique.
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
        let (method, verb, description, parameters, body, codes, answer): Parts = match action {
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
                let answer = if self.resource.returns_deleted { one.clone() } else { Some(status.clone()) };
                ("delete", "delete", "delete", parameters::DELETE, options(), &[200, 202], answer)
            }
            "deletecollection" => {
                let parameters = parameters::DELETE_COLLECTION;
                ("delete", "delete", "delete many", parameters, options(), &[200], Some(status.clone()))
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
            description: format!("{description} objects of kind {kind}"),
            tag: self.tag(),
            action,
            kind: objects.kind.clone(),
            parameters,
            body,
            codes,
            answer,
            failure: status.clone(),
        }
    }

    /// Tag of an operation: group and version.
    pub(super) fn tag(&self) -> String {
        let Resource { group, version, .. } = self.resource;
        let group = if group.is_empty() { "core" } else { group.as_ref() };
        format!("{}_{version}", group.trim_end_matches(".k8s.io").replace('.', "_"))
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
