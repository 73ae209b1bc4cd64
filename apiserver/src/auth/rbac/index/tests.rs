//! Decisions of the index: from a table, compared with a naive implementation, and their cost.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::*;
use crate::auth::attributes::{On, ResourceAttributes};

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn role(namespace: &str, name: &str, rules: &Value) -> Map<String, Value> {
    object(json!({"metadata": {"namespace": namespace, "name": name}, "rules": rules}))
}

fn binding(namespace: &str, name: &str, (kind, role): (&str, &str), subjects: &Value) -> Map<String, Value> {
    object(json!({
        "metadata": {"namespace": namespace, "name": name},
        "roleRef": {"kind": kind, "name": role},
        "subjects": subjects,
    }))
}

fn get(resource: &str, namespace: &str) -> Attributes {
    let (resource, namespace) = (resource.to_owned(), namespace.to_owned());
    Attributes::on("get", ResourceAttributes { resource, namespace, ..ResourceAttributes::default() })
}

fn pods() -> Value {
    json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}])
}

#[test]
fn rbac_decision_names_the_binding_and_role() {
    let mut index = Index::default();
    index.put(Kind::ClusterRole, &role("", "reader", &pods()));
    index.put(Kind::Role, &role("shop", "reader", &json!([])));
    let check = |index: &Index, who: &Identity, namespace: &str, expected: &str| {
        let (Decision::Allowed(found) | Decision::Denied(found)) = index.decide(who, &get("pods", namespace));
        assert_eq!(found, expected);
    };
    let joe = Identity::authenticated("joe", ["dev".to_owned()]);
    let account = Identity::authenticated("system:serviceaccount:shop:web", []);
    check(&index, &joe, "shop", "");
    let subjects = json!([{"kind": "Group", "name": "dev"}, {"kind": "ServiceAccount", "name": "web"}]);
    index.put(Kind::RoleBinding, &binding("shop", "b", ("ClusterRole", "reader"), &subjects));
    check(
        &index,
        &joe,
        "shop",
        r#"RBAC: allowed by RoleBinding "b/shop" of ClusterRole "reader" to Group "dev""#,
    );
    check(
        &index,
        &account,
        "shop",
        r#"RBAC: allowed by RoleBinding "b/shop" of ClusterRole "reader" to ServiceAccount "web/shop""#,
    );
    check(&index, &joe, "", "");
    check(&index, &joe, "other", "");
    index.put(Kind::RoleBinding, &binding("shop", "b", ("Role", "reader"), &subjects));
    check(&index, &joe, "shop", "");
    index.put(Kind::RoleBinding, &binding("shop", "b", ("Role", "absent"), &subjects));
    check(&index, &joe, "shop", r#"RBAC: role.rbac.authorization.k8s.io "absent" not found"#);
    index.put(Kind::ClusterRoleBinding, &binding("", "c", ("ClusterRole", "gone"), &subjects));
    check(
        &index,
        &joe,
        "shop",
        r#"RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "absent" not found]"#,
    );
    index.put(Kind::ClusterRole, &role("", "gone", &pods()));
    check(
        &index,
        &joe,
        "",
        r#"RBAC: allowed by ClusterRoleBinding "c" of ClusterRole "gone" to Group "dev""#,
    );
    check(&index, &account, "", "");
    index.remove(Kind::ClusterRoleBinding, "", "c");
    index.remove(Kind::RoleBinding, "shop", "b");
    check(&index, &joe, "shop", "");
    assert!(index.users.is_empty() && index.groups.is_empty(), "nothing is left of bindings that are gone");
    let admin = Identity::authenticated("x", ["system:masters".to_owned()]);
    assert!(index.decide(&admin, &Attributes::on_path("post", "/x")).is_allowed());
    assert_eq!(index.rules_of(&admin, "").len(), 2);
}

#[test]
fn malformed_roles_and_bindings_grant_nothing() {
    let mut index = Index::default();
    let joe = Identity::authenticated("joe", []);
    let subjects = json!([{"kind": "User", "name": "joe"}]);
    let namespaced = binding("", "x", ("Role", "reader"), &subjects);
    index.put(Kind::Role, &role("", "reader", &pods()));
    for broken in [
        namespaced,
        object(json!({})),
        object(json!({"metadata": {"name": 7}, "roleRef": [], "subjects": {"kind": "User"}})),
        binding("", "x", ("Kind", "reader"), &subjects),
        binding(
            "",
            "x",
            ("ClusterRole", "reader"),
            &json!([7, {"kind": "ServiceAccount", "name": "a"}, {"kind": "X"}]),
        ),
    ] {
        index.put(Kind::ClusterRoleBinding, &broken);
        assert!(!index.decide(&joe, &get("pods", "")).is_allowed(), "{broken:?}");
    }
}

/// A write or delete of a role or binding.
#[derive(Clone, Debug)]
enum Step {
    Put(Kind, Map<String, Value>),
    Remove(Kind, String, String),
}

fn kind() -> impl Strategy<Value = Kind> {
    select(Kind::ALL.to_vec())
}

/// Namespace of an object of that kind.
fn namespace_of(kind: Kind, namespace: &str) -> String {
    let is_local = matches!(kind, Kind::Role | Kind::RoleBinding);
    if is_local { namespace.to_owned() } else { String::new() }
}

fn rules() -> impl Strategy<Value = Value> {
    let some = |of: &'static [&'static str]| proptest::collection::vec(select(of), 0..3);
    let rule = (
        some(&["get", "list", "*"]),
        some(&["", "apps", "*"]),
        some(&["pods", "pods/log", "*/log", "*"]),
        some(&["a", "b"]),
        some(&["/x", "/x/*", "*"]),
    );
    let rule = rule.prop_map(|(verbs, groups, resources, names, paths)| {
        json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names, "nonResourceURLs": paths})
    });
    proptest::collection::vec(rule, 0..3).prop_map(Value::Array)
}

fn step() -> impl Strategy<Value = Step> {
    let names = select(vec!["r", "s"]);
    let namespaces = || select(vec!["one", "two"]);
    let subject =
        (select(vec!["User", "Group", "ServiceAccount"]), select(vec!["u", "g"]), select(vec!["", "one"]))
            .prop_map(|(kind, name, namespace)| json!({"kind": kind, "name": name, "namespace": namespace}));
    let subjects = proptest::collection::vec(subject, 0..3).prop_map(Value::Array);
    let roles = (select(vec!["Role", "ClusterRole"]), select(vec!["r", "s"]));
    (kind(), namespaces(), names, rules(), roles, subjects, prop::bool::weighted(0.25)).prop_map(
        |(kind, namespace, name, rules, of, subjects, removes)| {
            let namespace = namespace_of(kind, namespace);
            match kind {
                kind if removes => Step::Remove(kind, namespace, name.to_owned()),
                kind if kind.is_role() => Step::Put(kind, role(&namespace, name, &rules)),
                kind => Step::Put(kind, binding(&namespace, name, of, &subjects)),
            }
        },
    )
}

fn who() -> impl Strategy<Value = Identity> {
    let users = select(vec!["u", "g", "system:serviceaccount:one:u", "system:serviceaccount:two:g"]);
    let groups = proptest::sample::subsequence(vec!["u", "g"], 0..=2);
    (users, groups)
        .prop_map(|(user, groups)| Identity::authenticated(user, groups.into_iter().map(str::to_owned)))
}

fn requested() -> impl Strategy<Value = Attributes> {
    let on = (
        select(vec!["", "apps"]),
        select(vec!["pods", "nodes"]),
        select(vec!["", "log"]),
        select(vec!["", "a", "b"]),
        select(vec!["", "one", "two"]),
    );
    let on = on.prop_map(|(group, resource, subresource, name, namespace)| {
        On::Resource(ResourceAttributes {
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            ..ResourceAttributes::default()
        })
    });
    let path = select(vec!["/x", "/x/y", "/y"]).prop_map(|path| On::Path(path.to_owned()));
    (select(vec!["get", "list", "delete"]), prop_oneof![3 => on, 1 => path])
        .prop_map(|(verb, on)| Attributes { verb: verb.to_owned(), on })
}

/// Naive implementation: examines every binding, subject and rule.
fn slowly(objects: &[(Kind, Map<String, Value>)], who: &Identity, requested: &Attributes) -> bool {
    let words = |rule: &Value, field: &str| -> Vec<String> {
        rule[field].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let allows = |rule: &Value| {
        let has =
            |field: &str, wanted: &str| words(rule, field).iter().any(|word| word == "*" || word == wanted);
        let on = match &requested.on {
            On::Path(path) => words(rule, "nonResourceURLs").iter().any(|own| match own.as_str() {
                "*" => true,
                "/x/*" => path.starts_with("/x/"),
                own => own == path,
            }),
            On::Resource(on) => {
                let whole = match on.subresource.as_str() {
                    "" => vec!["*".to_owned(), on.resource.clone()],
                    part => vec!["*".to_owned(), format!("*/{part}"), format!("{}/{part}", on.resource)],
                };
                let names = words(rule, "resourceNames");
                words(rule, "resources").iter().any(|own| whole.contains(own))
                    && has("apiGroups", &on.group)
                    && (names.is_empty() || names.contains(&on.name))
            }
        };
        on && has("verbs", &requested.verb)
    };
    objects.iter().filter(|(kind, _)| !kind.is_role()).any(|(kind, binding)| {
        let namespace = text(binding, "namespace");
        let is_here = *kind == Kind::ClusterRoleBinding || namespace == requested.namespace();
        let is_for = |subject: &Value| {
            let name = subject["name"].as_str().unwrap();
            match subject["kind"].as_str().unwrap() {
                "User" => who.user == name,
                "Group" => who.groups.iter().any(|group| group == name),
                _ => {
                    let own = subject["namespace"].as_str().unwrap();
                    let own = if own.is_empty() { namespace } else { own };
                    who.user == format!("system:serviceaccount:{own}:{name}")
                }
            }
        };
        let (role_kind, role_namespace) = match binding["roleRef"]["kind"].as_str().unwrap() {
            "Role" => (Kind::Role, namespace),
            _ => (Kind::ClusterRole, ""),
        };
        let is_role = |(kind, role): &&(Kind, Map<String, Value>)| {
            *kind == role_kind
                && text(role, "namespace") == role_namespace
                && text(role, "name") == binding["roleRef"]["name"].as_str().unwrap()
        };
        is_here
            && binding["subjects"].as_array().unwrap().iter().any(is_for)
            && objects
                .iter()
                .find(is_role)
                .is_some_and(|(_, role)| role["rules"].as_array().unwrap().iter().any(allows))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// The index agrees with the naive implementation after any changes.
    #[test]
    fn index_agrees_with_the_naive_implementation(
        steps in proptest::collection::vec(step(), 0..16),
        questions in proptest::collection::vec((who(), requested()), 8),
    ) {
        let (mut index, mut objects) = (Index::default(), Vec::<(Kind, Map<String, Value>)>::new());
        for step in steps {
            let (kind, namespace, name) = match &step {
                Step::Put(kind, object) => (*kind, text(object, "namespace").to_owned(), text(object, "name").to_owned()),
                Step::Remove(kind, namespace, name) => (*kind, namespace.clone(), name.clone()),
            };
            objects.retain(|(own, object)| {
                *own != kind || text(object, "namespace") != namespace || text(object, "name") != name
            });
            match step {
                Step::Put(kind, object) => {
                    index.put(kind, &object);
                    objects.push((kind, object));
                }
                Step::Remove(kind, namespace, name) => index.remove(kind, &namespace, &name),
            }
        }
        for (who, requested) in questions {
            let expected = slowly(&objects, &who, &requested);
            prop_assert_eq!(index.decide(&who, &requested).is_allowed(), expected, "{:?} {:?} in {:?}", who, requested, objects);
        }
    }
}

/// An index of roles with five times as many bindings; each user has five of them in own namespaces.
fn crowded(roles: usize) -> Index {
    let mut index = Index::default();
    for number in 0..roles {
        index.put(Kind::ClusterRole, &role("", &format!("r{number}"), &pods()));
    }
    for number in 0..roles * 5 {
        let subjects = json!([{"kind": "User", "name": format!("u{}", number % roles)}]);
        let of = format!("r{}", number % roles);
        let namespace = format!("n{}", number / roles);
        let binding = binding(&namespace, &format!("b{number}"), ("ClusterRole", &of), &subjects);
        index.put(Kind::RoleBinding, &binding);
    }
    index
}

/// The shortest of several measurements of a thousand decisions, as other processes use the CPU, too.
fn thousand_decisions(index: &Index) -> Duration {
    let who = Identity::authenticated("u7", ["dev".to_owned(), "ops".to_owned()]);
    let (allowed, denied) = (get("pods", "n3"), get("secrets", "n3"));
    let measure = |_| {
        let begun = Instant::now();
        for _ in 0..500 {
            assert!(index.decide(&who, &allowed).is_allowed());
            assert!(!index.decide(&who, &denied).is_allowed());
        }
        begun.elapsed()
    };
    (0..20).map(measure).min().unwrap()
}

#[test]
fn decisions_do_not_slow_down_with_the_number_of_roles() {
    let (few, many) = (thousand_decisions(&crowded(10)), thousand_decisions(&crowded(1000)));
    assert!(
        many < few * 4,
        "with 10 roles {few:?}, with 1,000 roles and 5,000 bindings {many:?} for 1,000 decisions"
    );
}
