//! The bootstrap policy.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::HashSet;

mod policy;

use super::super::index::{Index, role_of, text};
use super::*;
use crate::auth::attributes::{Attributes, ResourceAttributes};
use crate::auth::rbac::aggregate::outdated;
use crate::identity::Identity;

/// All bootstrap objects, with rules of aggregated roles filled in.
fn index() -> Index {
    let mut objects = objects();
    let roles: Vec<_> =
        objects.iter().filter(|(kind, _)| *kind == Kind::ClusterRole).map(|(_, role)| role.clone()).collect();
    for (name, rules) in outdated(&roles) {
        let role =
            objects.iter_mut().find(|(kind, role)| *kind == Kind::ClusterRole && text(role, "name") == name);
        role.unwrap().1.insert("rules".to_owned(), rules.iter().map(Rule::json).collect());
    }
    let mut index = Index::default();
    objects.iter().for_each(|(kind, object)| index.put(*kind, object));
    index
}

#[test]
fn bindings_reference_existing_roles_and_names_are_unique() {
    let (index, mut names) = (index(), HashSet::new());
    for (kind, object) in objects() {
        let (namespace, name) = (text(&object, "namespace"), text(&object, "name"));
        assert!(names.insert(format!("{kind:?} {namespace} {name}")), "{name} is a duplicate");
        if !kind.is_role() {
            let role = role_of(&object).unwrap();
            assert!(index.rules(&role, namespace).is_some(), "{name}: {}", role.not_found());
        }
    }
}

#[test]
fn bootstrap_roles_grant_the_stock_permissions() {
    let mut index = index();
    for role in ["admin", "edit", "view"] {
        let binding = json!({
            "metadata": {"name": role, "namespace": "shop"},
            "roleRef": {"kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": role}],
        });
        index.put(Kind::RoleBinding, binding.as_object().unwrap());
    }
    let known = |name: &str| Identity::authenticated(name, []);
    let may = |who: &Identity, verb: &str, what: &str| {
        let attributes = if what.starts_with('/') {
            Attributes::on_path(verb, what)
        } else {
            let (qualified, namespace) = what.split_once(' ').unwrap_or((what, ""));
            let (resource, subresource) = qualified.split_once('/').unwrap_or((qualified, ""));
            let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
            let own = |text: &str| text.to_owned();
            Attributes::on(
                verb,
                ResourceAttributes {
                    group: own(group),
                    resource: own(resource),
                    subresource: own(subresource),
                    namespace: own(namespace),
                    ..ResourceAttributes::default()
                },
            )
        };
        index.decide(who, &attributes).is_allowed()
    };
    let controller = |name: &str| known(&format!("system:serviceaccount:kube-system:{name}"));
    let in_group = |group: &str| Identity::authenticated("x", [group.to_owned()]);
    for (who, verb, what, expected) in [
        (Identity::anonymous(), "get", "/healthz", true),
        (Identity::anonymous(), "get", "/version", true),
        (Identity::anonymous(), "get", "/bootstrap/v1/cluster-info", true),
        (Identity::anonymous(), "create", "certificatesigningrequests.certificates.k8s.io", true),
        (Identity::anonymous(), "get", "certificatesigningrequests.certificates.k8s.io", true),
        (Identity::anonymous(), "list", "certificatesigningrequests.certificates.k8s.io", false),
        (Identity::anonymous(), "get", "/livez/ping", false),
        (Identity::anonymous(), "get", "/api", false),
        (Identity::anonymous(), "create", "selfsubjectaccessreviews.authorization.k8s.io", false),
        (known("joe"), "get", "/api/v1", true),
        (known("joe"), "get", "/openapi/v3", true),
        (known("joe"), "get", "/metrics", false),
        (known("joe"), "get", "/openid/v1/jwks", false),
        (known("joe"), "create", "selfsubjectreviews.authentication.k8s.io", true),
        (known("joe"), "list", "pods shop", false),
        (known("view"), "list", "pods shop", true),
        (known("view"), "get", "pods/log shop", true),
        (known("view"), "get", "secrets shop", false),
        (known("view"), "create", "pods shop", false),
        (known("view"), "list", "pods", false),
        (known("edit"), "list", "deployments.apps shop", true),
        (known("edit"), "patch", "deployments.apps/scale shop", true),
        (known("edit"), "get", "secrets shop", true),
        (known("edit"), "create", "pods/exec shop", true),
        (known("edit"), "create", "serviceaccounts/token shop", true),
        (known("edit"), "create", "roles.rbac.authorization.k8s.io shop", false),
        (known("admin"), "create", "roles.rbac.authorization.k8s.io shop", true),
        (known("admin"), "get", "secrets shop", true),
        (known("admin"), "list", "nodes", false),
        (in_group("system:bootstrappers"), "watch", "certificatesigningrequests.certificates.k8s.io", true),
        (in_group("system:monitoring"), "get", "/metrics", true),
        (in_group("system:monitoring"), "get", "/livez/ping", true),
        (in_group("system:serviceaccounts"), "get", "/openid/v1/jwks", true),
        (in_group("system:nodes"), "get", "secrets shop", false),
        (in_group("system:masters"), "escalate", "anything.at.all/really nowhere", true),
        (controller("replicaset-controller"), "create", "pods shop", true),
        (controller("replicaset-controller"), "get", "secrets shop", false),
        (controller("namespace-controller"), "deletecollection", "anything.at.all shop", true),
        (controller("endpointslicemirroring-controller"), "get", "endpoints shop", true),
        (controller("endpointslicemirroring-controller"), "update", "endpoints shop", false),
        (controller("token-cleaner"), "delete", "secrets kube-system", true),
        (controller("token-cleaner"), "delete", "secrets shop", false),
        (known("system:kube-scheduler"), "create", "pods/binding shop", true),
    ] {
        assert_eq!(may(&who, verb, what), expected, "{} {verb} {what}", who.user);
    }
}
