//! The index compared with a naive implementation, and the cost of decisions with many pods.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::*;

/// A change of an object.
#[derive(Clone, Debug)]
enum Step {
    Put(Kind, Value),
    Remove(Object),
}

const NODES: [&str; 3] = ["a", "b", ""];
const NAMESPACES: [&str; 2] = ["one", "two"];
const NAMES: [&str; 3] = ["x", "y", "z"];
const ASKED: [Kind; 9] = [
    Kind::Pod,
    Kind::Secret,
    Kind::ConfigMap,
    Kind::Claim,
    Kind::Volume,
    Kind::ServiceAccount,
    Kind::ResourceClaim,
    Kind::Attachment,
    Kind::Slice,
];

/// A pod field that references one object.
fn saying() -> impl Strategy<Value = (&'static str, Value)> {
    (select(vec![0, 1, 2, 3, 4, 5, 6]), select(NAMES.to_vec())).prop_map(|(which, name)| match which {
        0 => ("volumes", json!({"name": "v", "secret": {"secretName": name}})),
        1 => ("volumes", json!({"name": "v", "persistentVolumeClaim": {"claimName": name}})),
        2 => ("volumes", json!({"name": name, "ephemeral": {}})),
        3 => ("containers", json!({"envFrom": [{"configMapRef": {"name": name}}]})),
        4 => ("ephemeralContainers", json!({"env": [{"valueFrom": {"secretKeyRef": {"name": name}}}]})),
        5 => ("imagePullSecrets", json!({"name": name})),
        _ => ("resourceClaims", json!({"resourceClaimName": name})),
    })
}

fn pod() -> impl Strategy<Value = Value> {
    let place = (select(NAMESPACES.to_vec()), select(NAMES.to_vec()), select(NODES.to_vec()));
    let account = select(vec!["", "x", "y"]);
    (place, account, proptest::collection::vec(saying(), 0..4), prop::bool::weighted(0.1)).prop_map(
        |((namespace, name, node), account, sayings, mirrors)| {
            let mut pod = json!({
                "metadata": {"namespace": namespace, "name": name},
                "spec": {"nodeName": node, "serviceAccountName": account},
            });
            if mirrors {
                pod["metadata"]["annotations"] = json!({references::MIRROR: "x"});
            }
            for (list, one) in sayings {
                if pod["spec"][list].is_null() {
                    pod["spec"][list] = json!([]);
                }
                pod["spec"][list].as_array_mut().unwrap().push(one);
            }
            pod
        },
    )
}

fn volume() -> impl Strategy<Value = Value> {
    let secret = (select(vec!["", "one", "two"]), select(NAMES.to_vec()));
    let claim = proptest::option::of((select(NAMESPACES.to_vec()), select(NAMES.to_vec())));
    (select(NAMES.to_vec()), claim, secret).prop_map(|(name, claim, (namespace, secret))| {
        let mut volume = json!({
            "metadata": {"name": name}, "spec": {"rbd": {"secretRef": {"namespace": namespace, "name": secret}}},
        });
        if let Some((namespace, name)) = claim {
            volume["spec"]["claimRef"] = json!({"namespace": namespace, "name": name});
        }
        volume
    })
}

fn step() -> impl Strategy<Value = Step> {
    let on_node =
        (select(vec![Kind::Attachment, Kind::Slice]), select(NAMES.to_vec()), select(NODES.to_vec()));
    let on_node = on_node.prop_map(|(kind, name, node)| {
        Step::Put(kind, json!({"metadata": {"name": name}, "spec": {"nodeName": node}}))
    });
    prop_oneof![
        4 => pod().prop_map(|pod| Step::Put(Kind::Pod, pod)),
        2 => volume().prop_map(|volume| Step::Put(Kind::Volume, volume)),
        1 => on_node,
        2 => object(vec![Kind::Pod, Kind::Volume, Kind::Attachment, Kind::Slice]).prop_map(Step::Remove),
    ]
}

fn object(kinds: Vec<Kind>) -> impl Strategy<Value = Object> {
    (select(kinds), select(NAMESPACES.to_vec()), select(NAMES.to_vec()), any::<bool>()).prop_map(
        |(kind, namespace, name, of_volume)| {
            let is_cluster = matches!(kind, Kind::Volume | Kind::Attachment | Kind::Slice);
            let name =
                if kind == Kind::Claim && of_volume { format!("{name}-{name}") } else { name.to_owned() };
            Object::new(kind, if is_cluster { "" } else { namespace }, &name)
        },
    )
}

/// Naive implementation: examines every object.
fn slowly(objects: &[(Kind, Value)], node: &str, wanted: &Object) -> bool {
    let is = |value: &Value, expected: &str| value.as_str().unwrap_or_default() == expected;
    let of = |kind: Kind| objects.iter().filter(move |(own, _)| *own == kind).map(|(_, object)| object);
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let names = |pod: &Value, kind: Kind, namespace: &str, name: &str| {
        let spec = &pod["spec"];
        if !is(&pod["metadata"]["namespace"], namespace) || !is(&spec["nodeName"], node) || node.is_empty() {
            return false;
        }
        if kind == Kind::Pod {
            return is(&pod["metadata"]["name"], name);
        }
        if pod["metadata"]["annotations"].get(references::MIRROR).is_some() {
            return false;
        }
        let pod_name = pod["metadata"]["name"].as_str().unwrap();
        let any = |list: &str, test: &dyn Fn(&Value) -> bool| items(&spec[list]).iter().any(test);
        match kind {
            Kind::ServiceAccount => is(&spec["serviceAccountName"], name),
            Kind::ConfigMap => {
                any("containers", &|container| is(&container["envFrom"][0]["configMapRef"]["name"], name))
            }
            Kind::ResourceClaim => any("resourceClaims", &|claim| is(&claim["resourceClaimName"], name)),
            Kind::Secret => {
                any("imagePullSecrets", &|secret| is(&secret["name"], name))
                    || any("volumes", &|volume| is(&volume["secret"]["secretName"], name))
                    || any("ephemeralContainers", &|container| {
                        is(&container["env"][0]["valueFrom"]["secretKeyRef"]["name"], name)
                    })
            }
            Kind::Claim => any("volumes", &|volume| {
                is(&volume["persistentVolumeClaim"]["claimName"], name)
                    || (volume.get("ephemeral").is_some()
                        && format!("{pod_name}-{}", volume["name"].as_str().unwrap()) == name)
            }),
            _ => false,
        }
    };
    let by_pods =
        |kind: Kind, namespace: &str, name: &str| of(Kind::Pod).any(|pod| names(pod, kind, namespace, name));
    let by_claim = |volume: &Value| {
        let claim = &volume["spec"]["claimRef"];
        !claim.is_null()
            && by_pods(Kind::Claim, claim["namespace"].as_str().unwrap(), claim["name"].as_str().unwrap())
    };
    let named = |object: &&Value| is(&object["metadata"]["name"], &wanted.name);
    match wanted.kind {
        Kind::Volume => of(Kind::Volume).filter(named).any(by_claim),
        Kind::Attachment | Kind::Slice => of(wanted.kind)
            .filter(named)
            .any(|object| !node.is_empty() && is(&object["spec"]["nodeName"], node)),
        Kind::Secret => {
            let through = |volume: &Value| {
                let secret = &volume["spec"]["rbd"]["secretRef"];
                let own = secret["namespace"].as_str().filter(|own| !own.is_empty());
                let own = own.or(volume["spec"]["claimRef"]["namespace"].as_str());
                own == Some(&*wanted.namespace) && is(&secret["name"], &wanted.name) && by_claim(volume)
            };
            by_pods(Kind::Secret, &wanted.namespace, &wanted.name) || of(Kind::Volume).any(through)
        }
        kind => by_pods(kind, &wanted.namespace, &wanted.name),
    }
}

fn own(kind: Kind, object: &Value) -> Object {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    Object::new(kind, text("namespace"), text("name"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// The index agrees with the naive implementation after any changes, and is empty in the end.
    #[test]
    fn index_agrees_with_the_naive_implementation(
        steps in proptest::collection::vec(step(), 0..24),
        questions in proptest::collection::vec((select(NODES.to_vec()), object(ASKED.to_vec())), 24),
    ) {
        let (mut index, mut objects) = (Index::default(), Vec::<(Kind, Value)>::new());
        for step in steps {
            match step {
                Step::Put(kind, object) => {
                    objects.retain(|(other, there)| own(*other, there) != own(kind, &object));
                    index.put(kind, object.as_object().unwrap());
                    objects.push((kind, object));
                }
                Step::Remove(gone) => {
                    objects.retain(|(other, there)| own(*other, there) != gone);
                    index.remove(&gone);
                }
            }
        }
        for (node, wanted) in questions {
            let expected = slowly(&objects, node, &wanted);
            prop_assert_eq!(index.reaches(node, &wanted), expected, "{} {:?} in {:?}", node, wanted, objects);
        }
        for (kind, object) in objects {
            index.remove(&own(kind, &object));
        }
        let is_empty = index.nodes.is_empty() && index.pinned.is_empty() && index.volumes.is_empty() && index.of_claims.is_empty();
        prop_assert!(is_empty, "{:?}", index);
    }
}

/// An index of nodes with thirty pods each; every other pod has a claim with a volume that uses one shared
/// Secret.
fn crowded(nodes: usize) -> Index {
    let mut index = Index::default();
    for number in 0..nodes * 30 {
        let (node, namespace) = (format!("node-{}", number % nodes), format!("team-{}", number % 100));
        let name = format!("web-7d4b9c6f5d-{number}");
        let mut pod = json!({
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "nodeName": node, "serviceAccountName": "default",
                "containers": [{"name": "web", "envFrom": [{"secretRef": {"name": "database"}}]}],
                "volumes": [{"name": "t", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}}],
            },
        });
        if (number / nodes).is_multiple_of(2) {
            let volume = json!({"name": "d", "persistentVolumeClaim": {"claimName": name}});
            pod["spec"]["volumes"].as_array_mut().unwrap().push(volume);
            let secret = json!({"name": "storage", "namespace": "kube-system"});
            let spec =
                json!({"claimRef": {"namespace": namespace, "name": name}, "rbd": {"secretRef": secret}});
            let volume = json!({"metadata": {"name": format!("pv-{number}")}, "spec": spec});
            index.put(Kind::Volume, volume.as_object().unwrap());
        }
        index.put(Kind::Pod, pod.as_object().unwrap());
    }
    index
}

#[test]
fn decision_steps_grow_only_with_the_claims_of_the_node() {
    let (few, many) = (crowded(10), crowded(1000));
    let of = |kind: Kind, namespace: &str, name: &str| Object::new(kind, namespace, name);
    for (wanted, found, most) in [
        (of(Kind::Secret, "team-7", "database"), true, 2),
        (of(Kind::ConfigMap, "team-7", "kube-root-ca.crt"), true, 2),
        (of(Kind::ServiceAccount, "team-7", "default"), true, 2),
        (of(Kind::Pod, "team-7", "web-7d4b9c6f5d-7"), true, 2),
        (of(Kind::Claim, "team-7", "web-7d4b9c6f5d-7"), true, 2),
        (of(Kind::Volume, "", "pv-7"), true, 3),
        (of(Kind::Secret, "kube-system", "storage"), true, 4),
        // Fifteen claims with one volume each.
        (of(Kind::Secret, "kube-system", "other"), false, 2 + 2 * 15),
        (of(Kind::ConfigMap, "kube-system", "other"), false, 2),
    ] {
        for index in [&few, &many] {
            let looked = index.lookup("node-7", &wanted);
            assert!(looked.found == found && looked.steps <= most, "{wanted:?}: {looked:?}");
        }
    }
    assert_eq!(
        many.lookup("node-9999", &of(Kind::Secret, "team-7", "database")),
        Lookup { found: false, steps: 1 }
    );
}
