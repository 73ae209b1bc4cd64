//! What the objects of a cluster say: which are read, and who judges them.

mod access;
mod budgets;
mod claims;
mod definitions;
mod events;
mod field;
mod leaders;
mod namespaces;
mod nodes;
mod plane;
mod pods;
mod quotas;
mod ranges;
mod requests;
mod services;
mod webhooks;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use jiff::{SignedDuration, Timestamp};

use super::finding::{Finding, Report, Severity};
use super::server::version::Version;
use crate::controllers::{Client, Error, Kind, Object};

/// Objects of one kind that are looked at: what is kept of a hundred thousand pods is some 100 MB.
const MOST_OBJECTS: usize = 100_000;
/// How long things may be on their way before somebody should look: images are pulled and leases renewed meanwhile.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// A kind that is read, and what is kept of its objects beside their names.
struct Row {
    kind: Kind,
    kept: &'static [&'static str],
}

const fn row(kind: Kind, kept: &'static [&'static str]) -> Row {
    Row { kind, kept }
}

const POLICY: &str = "policy";
const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// Everything that is read; a kind that several checks look at is read once.
const ROWS: &[Row] = &[
    row(
        Kind::of("", "Node", NODES, false),
        &[
            "metadata.annotations",
            "spec.unschedulable",
            "spec.taints",
            "spec.podCIDR",
            "spec.podCIDRs",
            "status.conditions",
            "status.nodeInfo",
        ],
    ),
    row(
        Kind::of("coordination.k8s.io", "Lease", "leases", true),
        &["spec.renewTime", "spec.leaseDurationSeconds", "spec.holderIdentity"],
    ),
    row(
        Kind::POD,
        &[
            "metadata.labels",
            "metadata.deletionTimestamp",
            "spec.nodeName",
            "spec.schedulingGates",
            "status.phase",
            "status.reason",
            "status.message",
            "status.conditions",
            "status.containerStatuses",
            "status.initContainerStatuses",
        ],
    ),
    row(
        Kind::NAMESPACE,
        &["metadata.labels", "metadata.deletionTimestamp", "spec.finalizers", "status.conditions"],
    ),
    row(
        Kind::of("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false),
        &["metadata.deletionTimestamp", "status.conditions"],
    ),
    row(
        Kind::of("certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests", false),
        &["spec.signerName", "spec.username", "spec.request", "status"],
    ),
    row(Kind::RESOURCE_QUOTA, &["status.hard", "status.used"]),
    row(
        Kind::of(POLICY, "PodDisruptionBudget", "poddisruptionbudgets", true),
        &["spec.minAvailable", "spec.maxUnavailable", "spec.selector", "status"],
    ),
    row(Kind::of(ADMISSION, "ValidatingWebhookConfiguration", VALIDATING, false), &["webhooks"]),
    row(Kind::of(ADMISSION, "MutatingWebhookConfiguration", MUTATING, false), &["webhooks"]),
    row(
        Kind::of("", "PersistentVolumeClaim", "persistentvolumeclaims", true),
        &["spec.storageClassName", "status.phase"],
    ),
    row(
        Kind::of("storage.k8s.io", "StorageClass", "storageclasses", false),
        &["volumeBindingMode", "provisioner"],
    ),
    row(
        Kind::of("", "Service", "services", true),
        &["spec.type", "spec.selector", "spec.publishNotReadyAddresses", "spec.clusterIPs"],
    ),
    row(Kind::of("networking.k8s.io", "ServiceCIDR", "servicecidrs", false), &["spec.cidrs"]),
    row(
        Kind::of("discovery.k8s.io", "EndpointSlice", "endpointslices", true),
        &["metadata.labels", "endpoints"],
    ),
    row(
        Kind::EVENT,
        &[
            "type",
            "reason",
            "message",
            "count",
            "series",
            "lastTimestamp",
            "eventTime",
            "involvedObject.kind",
            "involvedObject.name",
            "involvedObject.namespace",
        ],
    ),
    row(Kind::of(RBAC, "ClusterRoleBinding", "clusterrolebindings", false), &["roleRef", "subjects"]),
    row(Kind::of(RBAC, "RoleBinding", "rolebindings", true), &["roleRef", "subjects"]),
];

const NODES: &str = "nodes";
const VALIDATING: &str = "validatingwebhookconfigurations";
const MUTATING: &str = "mutatingwebhookconfigurations";

/// A check: its name, the kinds it looks at (as they are called in paths), and what it finds.
type Check = (&'static str, &'static [&'static str], fn(&World) -> Vec<Finding>);

const CHECKS: &[Check] = &[
    ("nodes", &["nodes", "leases"], nodes::findings),
    ("leaders", &["leases"], leaders::findings),
    ("etcd members", &["pods"], plane::findings),
    ("namespaces", &["namespaces"], namespaces::findings),
    ("pods", &["pods", "nodes"], pods::findings),
    ("services", &["services", "endpointslices", "pods"], services::findings),
    ("service addresses", &["services", "servicecidrs"], ranges::findings),
    ("volume claims", &["persistentvolumeclaims", "storageclasses"], claims::findings),
    ("quotas", &["resourcequotas"], quotas::findings),
    ("disruption budgets", &["poddisruptionbudgets", "pods", "nodes"], budgets::findings),
    ("custom resources", &["customresourcedefinitions"], definitions::findings),
    ("certificate requests", &["certificatesigningrequests"], requests::findings),
    ("webhooks", &[VALIDATING, MUTATING, "services"], webhooks::findings),
    ("access", &["clusterrolebindings", "rolebindings"], access::findings),
    ("events", &["events"], events::findings),
];

/// What was read.
#[derive(Debug, Default)]
pub struct World {
    /// What the time is for the server, by which objects are dated.
    pub now: Timestamp,
    /// What the server is.
    pub version: Version,
    /// When it began, where it says so.
    pub started: Option<Timestamp>,
    /// Objects by their name in paths; a kind that could not be read is not there.
    lists: BTreeMap<String, Vec<Object>>,
    /// Kinds that were not read, or not to their end.
    missing: BTreeMap<String, Lack>,
}

/// Why a kind was not read, or not to its end.
#[derive(Clone, Debug)]
struct Lack {
    severity: Severity,
    /// What was to be read: `pods`, `leases.coordination.k8s.io`.
    what: String,
    why: String,
    /// The server does not let this user look.
    is_forbidden: bool,
}

impl World {
    /// What a server says of itself, before anything was read: the time there, what it is, and when it began.
    pub fn unread(now: Timestamp, version: Version, started: Option<Timestamp>) -> Self {
        Self { now, version, started, ..Self::default() }
    }

    /// Reads everything, knowing already what the server says of itself. A server that stops answering is not asked on.
    pub async fn read(client: &Client, seen: Self) -> Self {
        let mut world = seen;
        for row in ROWS {
            if world.take_in(client, row).await.is_break() {
                break;
            }
        }
        world
    }

    /// Reads the nodes alone.
    ///
    /// # Errors
    /// Why not all of them were read.
    pub async fn of_nodes(client: &Client) -> Result<Self, String> {
        let mut world = Self::default();
        for row in ROWS.iter().filter(|row| row.kind.plural == NODES) {
            let _ = world.take_in(client, row).await;
        }
        world.missing.remove(NODES).map_or(Ok(world), |lack| Err(lack.why))
    }

    /// Reads a kind; no more is to be read from a server that has stopped answering.
    async fn take_in(&mut self, client: &Client, row: &Row) -> ControlFlow<()> {
        let Row { kind, kept } = row;
        let (mut objects, mut count) = (Vec::new(), 0);
        let read = client
            .list(kind, "", |object| {
                count += 1;
                if objects.len() < MOST_OBJECTS {
                    objects.push(Object::keeping(kept, &object));
                }
            })
            .await;
        match read {
            Ok(_) => {
                if count > MOST_OBJECTS {
                    let why = format!("of {count} only {MOST_OBJECTS} were looked at");
                    self.lack(kind, Severity::Warning, why, false);
                }
                self.lists.insert(kind.plural.to_string(), objects);
            }
            // An older server has none of these.
            Err(error) if error.is_no_such_path() => {
                self.lists.insert(kind.plural.to_string(), Vec::new());
            }
            Err(error) => {
                let is_forbidden = error.is_forbidden();
                self.lack(kind, Severity::Problem, error.whole(), is_forbidden);
                if matches!(error, Error::Lost(_)) {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn lack(&mut self, kind: &Kind, severity: Severity, why: String, is_forbidden: bool) {
        let lack = Lack { severity, what: kind.qualified(), why, is_forbidden };
        self.missing.insert(kind.plural.to_string(), lack);
    }

    /// The objects of a kind, by its name in paths.
    fn of(&self, plural: &str) -> &[Object] {
        self.lists.get(plural).map_or(&[], Vec::as_slice)
    }

    /// All objects of a kind there are, `None` where some were not read.
    fn all_of(&self, plural: &str) -> Option<&[Object]> {
        self.lists.get(plural).filter(|_| !self.missing.contains_key(plural)).map(Vec::as_slice)
    }

    /// How long ago that was; nothing when it is no time, or still to come.
    fn since(&self, time: &str) -> SignedDuration {
        let then = time.parse::<Timestamp>().unwrap_or(self.now);
        self.now.duration_since(then).max(SignedDuration::ZERO)
    }

    /// Nodes that do not show what one of these authorities has signed, while the root before its own is to be retired.
    pub fn unrenewed(&self, authorities: &[String]) -> Vec<Finding> {
        nodes::unrenewed(self.of(NODES), authorities)
    }

    /// Every check that can be made, and a finding for what nobody could look at.
    pub fn judge(&self, report: &mut Report) {
        for (name, reads, findings) in CHECKS {
            if reads.iter().all(|plural| self.lists.contains_key(*plural)) {
                report.add(name, findings(self));
            }
        }
        let (forbidden, others): (Vec<_>, Vec<_>) =
            self.missing.iter().partition(|(_, lack)| lack.is_forbidden);
        let blind = others.iter().map(|(plural, lack)| blind(plural, lack));
        let blind: Vec<Finding> =
            blind.chain(shut_out(forbidden.into_iter().map(|(_, lack)| lack))).collect();
        if !blind.is_empty() {
            report.add("reading", blind);
        }
    }
}

/// Nobody knows whether a cluster is healthy of which he may not see all.
fn blind(plural: &str, Lack { severity, why, .. }: &Lack) -> Finding {
    let remedy = "ask again; if it stays so, the log of the master says why";
    Finding::problem(plural, "nobody could look at all of these", remedy).because(why).graded(*severity)
}

/// What the user may not see, in one finding, and the role with which he would.
fn shut_out<'a>(lacks: impl Iterator<Item = &'a Lack>) -> Option<Finding> {
    let lacks: Vec<&Lack> = lacks.collect();
    let first = lacks.first()?;
    let all: Vec<&str> = lacks.iter().map(|lack| lack.what.as_str()).collect();
    let what = format!("this user may not list {}", all.join(", "));
    let remedy = format!(
        "use admin.kubeconfig, or give the user a role: `kubectl create clusterrole check --verb=list --resource={}`, then \
         `kubectl create clusterrolebinding check --clusterrole=check --user=NAME`",
        all.join(",")
    );
    Some(Finding::problem("kubeconfig", what, remedy).because(&first.why).graded(first.severity))
}
