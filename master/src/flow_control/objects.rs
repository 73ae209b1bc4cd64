//! The FlowSchemas and PriorityLevelConfigurations of a stock server, as data and as objects. Pure.

use serde_json::{Value, json};

use super::{AUTO_UPDATE, FLOW_SCHEMA, GROUP, PRIORITY_LEVEL};
use crate::controllers::Kind;

/// How a stock server treats one of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The spec of the object cannot be changed.
    Mandatory,
    /// An administrator may take over the object.
    Suggested,
}

#[derive(Debug)]
pub(super) struct Object {
    pub kind: &'static Kind,
    pub name: &'static str,
    pub role: Role,
    pub spec: Value,
}

/// A limited priority level: name, shares, and lendable percent. If it has queues, also their number, the hand size
/// and the queue length.
type Level = (&'static str, u32, u32, Option<[u32; 3]>);

/// A FlowSchema for all requests of its subjects: name, priority level, precedence, distinguisher, users, groups,
/// and whether it applies to the service accounts of `kube-system`.
struct Flow {
    name: &'static str,
    level: &'static str,
    precedence: u32,
    distinguisher: &'static str,
    users: &'static [&'static str],
    groups: &'static [&'static str],
    accounts: &'static [&'static str],
    requests: Requests,
}

/// The requests to which a FlowSchema applies.
enum Requests {
    All,
    Health,
    /// Verbs, group, resources, and whether they are cluster-scoped.
    Resources(&'static [(&'static [&'static str], &'static str, &'static [&'static str], bool)]),
}

const BY_USER: &str = "ByUser";
const BY_NAMESPACE: &str = "ByNamespace";
const EVERYBODY: &[&str] = &["system:unauthenticated", "system:authenticated"];
const MANAGER: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";
const LOCKING: &[&str] = &["get", "create", "update"];
const LEASES: &str = "coordination.k8s.io";

const LEVELS: [Level; 7] = [
    ("catch-all", 5, 0, None),
    ("global-default", 20, 50, Some([128, 6, 50])),
    ("leader-election", 10, 0, Some([16, 4, 50])),
    ("node-high", 40, 25, Some([64, 6, 50])),
    ("system", 30, 33, Some([64, 6, 50])),
    ("workload-high", 40, 50, Some([128, 6, 50])),
    ("workload-low", 100, 90, Some([128, 6, 50])),
];
/// Names of the mandatory objects of both kinds.
const MANDATORY: [&str; 2] = ["exempt", "catch-all"];

const fn flow(name: &'static str, level: &'static str, precedence: u32, distinguisher: &'static str) -> Flow {
    Flow {
        name,
        level,
        precedence,
        distinguisher,
        users: &[],
        groups: &[],
        accounts: &[],
        requests: Requests::All,
    }
}

const FLOWS: [Flow; 13] = [
    Flow { groups: &["system:masters"], ..flow("exempt", "exempt", 1, "") },
    Flow { groups: EVERYBODY, requests: Requests::Health, ..flow("probes", "exempt", 2, "") },
    Flow {
        users: &[MANAGER, SCHEDULER],
        accounts: &["*"],
        requests: Requests::Resources(&[(LOCKING, LEASES, &["leases"], false)]),
        ..flow("system-leader-election", "leader-election", 100, BY_USER)
    },
    Flow {
        users: &[MANAGER],
        accounts: &["endpoint-controller", "endpointslicemirroring-controller"],
        requests: Requests::Resources(&[(LOCKING, "", &["endpoints"], false)]),
        ..flow("endpoint-controller", "workload-high", 150, BY_USER)
    },
    Flow {
        accounts: &["*"],
        requests: Requests::Resources(&[
            (LOCKING, "", &["endpoints", "configmaps"], false),
            (LOCKING, LEASES, &["leases"], false),
        ]),
        ..flow("workload-leader-election", "leader-election", 200, BY_USER)
    },
    Flow {
        groups: &["system:nodes"],
        requests: Requests::Resources(&[
            (&["*"], "", &["nodes", "nodes/status"], true),
            (&["*"], LEASES, &["leases"], false),
        ]),
        ..flow("system-node-high", "node-high", 400, BY_USER)
    },
    Flow { groups: &["system:nodes"], ..flow("system-nodes", "system", 500, BY_USER) },
    Flow { users: &[MANAGER], ..flow("kube-controller-manager", "workload-high", 800, BY_NAMESPACE) },
    Flow { users: &[SCHEDULER], ..flow("kube-scheduler", "workload-high", 800, BY_NAMESPACE) },
    Flow { accounts: &["*"], ..flow("kube-system-service-accounts", "workload-high", 900, BY_NAMESPACE) },
    Flow { groups: &["system:serviceaccounts"], ..flow("service-accounts", "workload-low", 9000, BY_USER) },
    Flow { groups: EVERYBODY, ..flow("global-default", "global-default", 9900, BY_USER) },
    Flow { groups: EVERYBODY, ..flow("catch-all", "catch-all", 10_000, BY_USER) },
];

/// All objects. Priority levels precede the schemas that name them.
pub(super) fn all() -> Vec<Object> {
    let level = |name, spec| Object { kind: &PRIORITY_LEVEL, name, role: role(name), spec };
    let exempt = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
    let mut all = vec![level("exempt", exempt)];
    all.extend(LEVELS.map(|(name, shares, lendable, queues)| {
        let response = match queues {
            None => json!({"type": "Reject"}),
            Some([queues, hand, length]) => json!({
                "type": "Queue",
                "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": length},
            }),
        };
        let limited = json!({
            "nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response,
        });
        level(name, json!({"type": "Limited", "limited": limited}))
    }));
    all.extend(FLOWS.iter().map(|flow| Object {
        kind: &FLOW_SCHEMA,
        name: flow.name,
        role: role(flow.name),
        spec: flow.spec(),
    }));
    all
}

fn role(name: &str) -> Role {
    if MANDATORY.contains(&name) { Role::Mandatory } else { Role::Suggested }
}

impl Object {
    /// The object as it is created.
    pub fn json(&self) -> Value {
        json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": self.kind.kind,
            "metadata": {"name": self.name, "annotations": {AUTO_UPDATE: "true"}},
            "spec": self.spec,
        })
    }
}

impl Flow {
    fn spec(&self) -> Value {
        let users = self.users.iter().map(|name| json!({"kind": "User", "user": {"name": name}}));
        let groups = self.groups.iter().map(|name| json!({"kind": "Group", "group": {"name": name}}));
        let accounts = self.accounts.iter().map(|name| {
            json!({"kind": "ServiceAccount", "serviceAccount": {"name": name, "namespace": "kube-system"}})
        });
        let mut rule = json!({"subjects": users.chain(groups).chain(accounts).collect::<Vec<Value>>()});
        let resources = |verbs: &[&str], group: &str, resources: &[&str], is_cluster_scoped: bool| {
            let mut rule = json!({
                "verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"],
            });
            if is_cluster_scoped {
                rule["clusterScope"] = true.into();
            }
            rule
        };
        match &self.requests {
            Requests::All => {
                rule["resourceRules"] = json!([resources(&["*"], "*", &["*"], true)]);
                rule["nonResourceRules"] = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
            }
            Requests::Health => {
                let urls = ["/healthz", "/readyz", "/livez"];
                rule["nonResourceRules"] = json!([{"verbs": ["get"], "nonResourceURLs": urls}]);
            }
            Requests::Resources(rules) => {
                let rules =
                    rules.iter().map(|(verbs, group, names, scope)| resources(verbs, group, names, *scope));
                rule["resourceRules"] = rules.collect();
            }
        }
        let mut spec = json!({
            "matchingPrecedence": self.precedence,
            "priorityLevelConfiguration": {"name": self.level},
            "rules": [rule],
        });
        if !self.distinguisher.is_empty() {
            spec["distinguisherMethod"] = json!({"type": self.distinguisher});
        }
        spec
    }
}
