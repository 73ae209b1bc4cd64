//! Requests of the matrix: every verb of every resource in discovery, for objects of both nodes and of none.

use std::fmt;

use reqwest::Method;
use serde_json::{Value, json};

use crate::master_matrix::bed::{Bed, NAMESPACE, NODES, OWNED, owner_of};

/// One request.
#[derive(Debug)]
pub struct Question {
    /// `get`, `list`, `watch`, ...
    pub verb: String,
    /// `pods/status`, `leases.coordination.k8s.io`.
    pub resource: String,
    /// The node that owns the object, or `None` for objects of no node and for collections.
    pub owner: Option<&'static str>,
    /// HTTP method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Request body.
    pub body: Option<Value>,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, resource, path, .. } = self;
        write!(f, "{verb:16} {resource:50} {path}")
    }
}

/// A resource or subresource in a version.
struct Resource {
    group_version: String,
    kind: String,
    /// `pods`.
    plural: String,
    /// `status`, or empty.
    part: String,
    namespaced: bool,
    verbs: Vec<String>,
}

impl Resource {
    fn of(group_version: &str, listed: &Value) -> Self {
        let name = listed["name"].as_str().unwrap();
        let (plural, part) = name.split_once('/').unwrap_or((name, ""));
        let verbs = listed["verbs"].as_array().unwrap().iter();
        Self {
            group_version: group_version.to_owned(),
            kind: listed["kind"].as_str().unwrap().to_owned(),
            plural: plural.to_owned(),
            part: part.to_owned(),
            namespaced: listed["namespaced"].as_bool().unwrap(),
            verbs: verbs.map(|verb| verb.as_str().unwrap().to_owned()).collect(),
        }
    }

    fn group(&self) -> &str {
        self.group_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Name in roles and in the table.
    fn name(&self) -> String {
        let name =
            if self.part.is_empty() { self.plural.clone() } else { format!("{}/{}", self.plural, self.part) };
        if self.group().is_empty() { name } else { format!("{name}.{}", self.group()) }
    }

    fn is_owned(&self) -> bool {
        OWNED.contains(&self.plural.as_str())
    }

    /// Names of the objects to test: one per node and one without a node, if such objects belong to nodes.
    fn names(&self) -> Vec<String> {
        let is_node = ["nodes", "leases", "csinodes"].contains(&self.plural.as_str());
        match self.is_owned() {
            true if is_node => NODES.map(str::to_owned).to_vec(),
            true => NODES.map(|node| format!("of-{node}")).to_vec(),
            false => vec!["x".to_owned()],
        }
    }

    /// Path of its objects.
    fn path(&self) -> String {
        let root = if self.group().is_empty() { "/api" } else { "/apis" };
        let within = match (self.namespaced, self.plural.as_str()) {
            (false, _) => String::new(),
            (true, "leases") => "/namespaces/kube-node-lease".to_owned(),
            (true, _) => format!("/namespaces/{NAMESPACE}"),
        };
        format!("{root}/{}{within}/{}", self.group_version, self.plural)
    }

    /// All requests for the resource.
    async fn questions(&self, bed: &Bed) -> Vec<Question> {
        let mut all = Vec::new();
        for verb in &self.verbs {
            if ["list", "watch", "deletecollection"].contains(&verb.as_str()) {
                all.extend(self.of_many(verb));
                continue;
            }
            for name in self.names() {
                all.push(self.of_one(bed, verb, &name).await);
            }
        }
        all
    }

    /// Requests for all objects, and for those that match a selector.
    fn of_many(&self, verb: &str) -> Vec<Question> {
        let mut selectors = vec![(String::new(), None)];
        let by = |field: &str, name: &str| (format!("&fieldSelector={field}%3D{name}"), owner_of(name));
        if self.is_owned() && self.plural != "resourceslices" {
            selectors.extend(self.names().iter().map(|name| by("metadata.name", name)));
        }
        let is_on_nodes =
            self.plural == "resourceslices" || (self.plural == "pods" && verb != "deletecollection");
        if is_on_nodes {
            selectors.extend(NODES.map(|node| by("spec.nodeName", node)));
        }
        let (method, query) = match verb {
            "list" => (Method::GET, "?limit=1"),
            "watch" => (Method::GET, "?watch=true&timeoutSeconds=1"),
            _ => (Method::DELETE, "?dryRun=All"),
        };
        let question = |(selector, owner): (String, _)| Question {
            verb: verb.to_owned(),
            resource: self.name(),
            owner,
            method: method.clone(),
            path: format!("{}{query}{selector}", self.path()),
            body: None,
        };
        selectors.into_iter().map(question).collect()
    }

    async fn of_one(&self, bed: &Bed, verb: &str, name: &str) -> Question {
        let (path, own) = (self.path(), format!("{}/{name}", self.path()));
        let part = if self.part.is_empty() { String::new() } else { format!("/{}", self.part) };
        let (method, path, body) = match verb {
            "get" => (Method::GET, format!("{own}{part}"), None),
            "delete" => (Method::DELETE, format!("{own}{part}?dryRun=All"), None),
            "patch" => (Method::PATCH, format!("{own}{part}?dryRun=All"), Some(json!({}))),
            "update" => {
                let body = if self.is_owned() { bed.object(&own).await } else { self.object(name) };
                (Method::PUT, format!("{own}{part}?dryRun=All"), Some(body))
            }
            "create" if self.part.is_empty() => {
                let body = bed.new_object(&self.plural, name).unwrap_or_else(|| self.object(name));
                (Method::POST, format!("{path}?dryRun=All"), Some(body))
            }
            "create" => {
                let body = bed.new_part(&self.plural, &self.part, name);
                let body = body.unwrap_or_else(|| self.object(name));
                (Method::POST, format!("{own}{part}?dryRun=All"), Some(body))
            }
            verb => panic!("discovery names the verb {verb}"),
        };
        Question { verb: verb.to_owned(), resource: self.name(), owner: owner_of(name), method, path, body }
    }

    /// A minimal object.
    fn object(&self, name: &str) -> Value {
        json!({"apiVersion": self.group_version, "kind": self.kind, "metadata": {"name": name}})
    }
}

/// All requests.
pub async fn all(bed: &Bed) -> Vec<Question> {
    let mut versions: Vec<String> = Vec::new();
    for version in bed.get("/api").await["versions"].as_array().unwrap() {
        versions.push(version.as_str().unwrap().to_owned());
    }
    for group in bed.get("/apis").await["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            versions.push(version["groupVersion"].as_str().unwrap().to_owned());
        }
    }
    let mut all = Vec::new();
    for version in versions {
        let root = if version.contains('/') { "/apis" } else { "/api" };
        let listed = bed.get(&format!("{root}/{version}")).await;
        for resource in listed["resources"].as_array().unwrap() {
            all.extend(Resource::of(&version, resource).questions(bed).await);
        }
    }
    all
}
