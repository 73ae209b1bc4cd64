//! Reads the objects of a cluster and runs the checks on them.

mod access;
mod budgets;
mod claims;
mod clocks;
mod events;
mod extensions;
mod kinds;
mod namespaces;
mod nodes;
mod plane;
mod pods;
mod quotas;
mod requests;
mod services;
mod workloads;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize as _;
use serde::de::DeserializeOwned;

use self::kinds::{
    EndpointSlice, Namespace, Node, Pod, ResourceQuota, Service, ServiceCidr, WebhookConfiguration,
};

use super::finding::{Finding, Report, Severity};
use super::server::version::Version;
use crate::controllers::{Client, Error, Json, Kind};
use crate::objects::rbac::RoleBinding;
use crate::objects::volume::{PersistentVolumeClaim, StorageClass};
use crate::objects::workload::PodDisruptionBudget;
use crate::objects::{CertificateSigningRequest, Conditioned, Event, Lease, PartialObject};

/// Maximum number of objects of one kind that are read. 100,000 pods need about 100 MB.
const MOST_OBJECTS: usize = 100_000;
/// How long a change, such as an image pull, may be in progress before it is reported.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// A resource to read, and the list that keeps its objects.
struct Row {
    kind: Kind,
    list: fn(&mut Lists) -> &mut dyn ObjectList,
}

const fn row(kind: Kind, list: fn(&mut Lists) -> &mut dyn ObjectList) -> Row {
    Row { kind, list }
}

/// The objects that the checks examine, as listed from the API server.
#[derive(Debug, Default)]
struct Lists {
    nodes: Vec<Node>,
    leases: Vec<Lease>,
    pods: Vec<Pod>,
    namespaces: Vec<Namespace>,
    custom_resource_definitions: Vec<Conditioned>,
    certificate_signing_requests: Vec<CertificateSigningRequest>,
    resource_quotas: Vec<ResourceQuota>,
    pod_disruption_budgets: Vec<PodDisruptionBudget>,
    validating_webhooks: Vec<WebhookConfiguration>,
    mutating_webhooks: Vec<WebhookConfiguration>,
    persistent_volume_claims: Vec<PersistentVolumeClaim>,
    storage_classes: Vec<StorageClass>,
    services: Vec<Service>,
    service_cidrs: Vec<ServiceCidr>,
    endpoint_slices: Vec<EndpointSlice>,
    events: Vec<Event>,
    cluster_role_bindings: Vec<RoleBinding>,
    role_bindings: Vec<RoleBinding>,
    deployments: Vec<PartialObject>,
    replica_sets: Vec<PartialObject>,
    stateful_sets: Vec<PartialObject>,
    daemon_sets: Vec<PartialObject>,
    cron_jobs: Vec<PartialObject>,
    replication_controllers: Vec<PartialObject>,
    jobs: Vec<Conditioned>,
}

/// A list of objects of any kind.
trait ObjectList {
    fn clear(&mut self);
    /// Decodes and adds an object.
    fn add(&mut self, object: &Json) -> Result<(), serde_json::Error>;
}

impl<T: DeserializeOwned> ObjectList for Vec<T> {
    fn clear(&mut self) {
        self.clear();
    }

    fn add(&mut self, object: &Json) -> Result<(), serde_json::Error> {
        self.push(T::deserialize(object)?);
        Ok(())
    }
}

const APPS: &str = "apps";
const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// All resources, each of which is read once.
const ROWS: &[Row] = &[
    row(Kind::of("", "Node", NODES, false), |lists| &mut lists.nodes),
    row(Kind::of("coordination.k8s.io", "Lease", "leases", true), |lists| &mut lists.leases),
    row(Kind::POD, |lists| &mut lists.pods),
    row(Kind::NAMESPACE, |lists| &mut lists.namespaces),
    row(
        Kind::of("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false),
        |lists| &mut lists.custom_resource_definitions,
    ),
    row(
        Kind::of("certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests", false),
        |lists| &mut lists.certificate_signing_requests,
    ),
    row(Kind::RESOURCE_QUOTA, |lists| &mut lists.resource_quotas),
    row(Kind::of("policy", "PodDisruptionBudget", "poddisruptionbudgets", true), |lists| {
        &mut lists.pod_disruption_budgets
    }),
    row(Kind::of(ADMISSION, "ValidatingWebhookConfiguration", VALIDATING, false), |lists| {
        &mut lists.validating_webhooks
    }),
    row(Kind::of(ADMISSION, "MutatingWebhookConfiguration", MUTATING, false), |lists| {
        &mut lists.mutating_webhooks
    }),
    row(Kind::of("", "PersistentVolumeClaim", "persistentvolumeclaims", true), |lists| {
        &mut lists.persistent_volume_claims
    }),
    row(Kind::of("storage.k8s.io", "StorageClass", "storageclasses", false), |lists| {
        &mut lists.storage_classes
    }),
    row(Kind::of("", "Service", "services", true), |lists| &mut lists.services),
    row(Kind::of("networking.k8s.io", "ServiceCIDR", "servicecidrs", false), |lists| {
        &mut lists.service_cidrs
    }),
    row(Kind::of("discovery.k8s.io", "EndpointSlice", "endpointslices", true), |lists| {
        &mut lists.endpoint_slices
    }),
    row(Kind::EVENT, |lists| &mut lists.events),
    row(Kind::of(RBAC, "ClusterRoleBinding", "clusterrolebindings", false), |lists| {
        &mut lists.cluster_role_bindings
    }),
    row(Kind::of(RBAC, "RoleBinding", "rolebindings", true), |lists| &mut lists.role_bindings),
    row(Kind::of(APPS, "Deployment", "deployments", true), |lists| &mut lists.deployments),
    row(Kind::of(APPS, "ReplicaSet", "replicasets", true), |lists| &mut lists.replica_sets),
    row(Kind::of(APPS, "StatefulSet", "statefulsets", true), |lists| &mut lists.stateful_sets),
    row(Kind::of(APPS, "DaemonSet", "daemonsets", true), |lists| &mut lists.daemon_sets),
    row(Kind::of("batch", "CronJob", "cronjobs", true), |lists| &mut lists.cron_jobs),
    row(Kind::of("", "ReplicationController", "replicationcontrollers", true), |lists| {
        &mut lists.replication_controllers
    }),
    row(Kind::JOB, |lists| &mut lists.jobs),
];

const NODES: &str = "nodes";
const VALIDATING: &str = "validatingwebhookconfigurations";
const MUTATING: &str = "mutatingwebhookconfigurations";

/// A check: its name, the resources that it needs (plural names), and its function.
type Check = (&'static str, &'static [&'static str], fn(&World) -> Vec<Finding>);

const CHECKS: &[Check] = &[
    ("nodes", &["nodes", "leases"], nodes::findings),
    ("leaders", &["leases"], plane::leader_findings),
    ("etcd members", &["pods"], plane::findings),
    ("namespaces", &["namespaces"], namespaces::findings),
    ("pods", &["pods", "nodes"], pods::findings),
    ("services", &["services", "endpointslices", "pods"], services::findings),
    ("service addresses", &["services", "servicecidrs"], services::address_findings),
    ("volume claims", &["persistentvolumeclaims", "storageclasses"], claims::findings),
    ("quotas", &["resourcequotas"], quotas::findings),
    ("disruption budgets", &["poddisruptionbudgets", "pods", "nodes"], budgets::findings),
    ("custom resources", &["customresourcedefinitions"], extensions::definition_findings),
    ("certificate requests", &["certificatesigningrequests", "nodes"], requests::findings),
    ("webhooks", &[VALIDATING, MUTATING, "services"], extensions::webhook_findings),
    (
        "workloads",
        &[
            "leases",
            "deployments",
            "replicasets",
            "statefulsets",
            "daemonsets",
            "cronjobs",
            "replicationcontrollers",
            "jobs",
        ],
        workloads::findings,
    ),
    ("access", &["clusterrolebindings", "rolebindings"], access::findings),
    ("events", &["events"], events::findings),
];

/// All objects that were read, and what the server reports about itself.
#[derive(Debug, Default)]
pub struct World {
    /// The API server's current time. The ages of objects are relative to it.
    pub now: Timestamp,
    /// Version of the API server.
    pub version: Version,
    /// Start time of the API server, if it is known.
    pub started: Option<Timestamp>,
    /// The objects that were read.
    lists: Lists,
    /// Resources that were read, by plural name.
    read: BTreeSet<String>,
    /// For each object with a creation time, its resource version and that time. The creation is a lower bound of
    /// the server's time at that version.
    created: Vec<(u64, Timestamp)>,
    /// Resources that were not read completely.
    missing: BTreeMap<String, Lack>,
}

/// The reason why a resource was not read completely.
#[derive(Clone, Debug)]
struct Lack {
    severity: Severity,
    /// The resource, such as `pods` or `leases.coordination.k8s.io`.
    what: String,
    why: String,
    /// Whether the user lacks permission.
    is_forbidden: bool,
}

impl World {
    /// Creates a world without objects, with what the server reports about itself.
    pub fn unread(now: Timestamp, version: Version, started: Option<Timestamp>) -> Self {
        Self { now, version, started, ..Self::default() }
    }

    /// Reads all resources. Stops if the server does not respond any more.
    pub async fn read(client: &Client, seen: Self) -> Self {
        let mut world = seen;
        for row in ROWS {
            if world.take_in(client, row).await.is_break() {
                break;
            }
        }
        world
    }

    /// Reads the nodes only.
    ///
    /// # Errors
    /// If not all of them could be read.
    pub async fn of_nodes(client: &Client) -> Result<Self, String> {
        let mut world = Self::default();
        for row in ROWS.iter().filter(|row| row.kind.plural == NODES) {
            let _ = world.take_in(client, row).await;
        }
        world.missing.remove(NODES).map_or(Ok(world), |lack| Err(lack.why))
    }

    /// Reads a resource. Returns whether the next one should be read.
    async fn take_in(&mut self, client: &Client, row: &Row) -> ControlFlow<()> {
        let kind = &row.kind;
        let (mut count, mut unreadable) = (0, None);
        let read = client
            .list(kind, "", |object| {
                count += 1;
                if count <= MOST_OBJECTS {
                    let error = self.add(row, &object).err();
                    unreadable = unreadable.take().or(error);
                }
            })
            .await;
        match read {
            Ok(_) => {
                if count > MOST_OBJECTS {
                    let why = format!("only {MOST_OBJECTS} of {count} objects were checked");
                    self.lack(kind, Severity::Warning, why, false);
                }
                if let Some(error) = unreadable {
                    self.lack(
                        kind,
                        Severity::Problem,
                        format!("an object cannot be decoded: {error}"),
                        false,
                    );
                }
                self.read.insert(kind.plural.to_string());
            }
            // Older servers do not serve this resource.
            Err(error) if error.is_unknown_resource() => {
                self.read.insert(kind.plural.to_string());
            }
            Err(error) => {
                (row.list)(&mut self.lists).clear();
                let is_forbidden = error.is_forbidden();
                self.lack(kind, Severity::Problem, error.full_message(), is_forbidden);
                if matches!(error, Error::Lost { .. }) {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Adds an object to its list.
    fn add(&mut self, row: &Row, object: &Json) -> Result<(), serde_json::Error> {
        (row.list)(&mut self.lists).add(object)?;
        let PartialObject { metadata } = PartialObject::deserialize(object)?;
        if let (Ok(version), Some(created)) = (metadata.resource_version.parse(), metadata.creation_timestamp)
        {
            self.created.push((version, created));
        }
        Ok(())
    }

    fn lack(&mut self, kind: &Kind, severity: Severity, why: String, is_forbidden: bool) {
        let lack = Lack { severity, what: kind.qualified(), why, is_forbidden };
        self.missing.insert(kind.plural.to_string(), lack);
    }

    /// True if all objects of the resource were read.
    fn is_complete(&self, plural: &str) -> bool {
        self.read.contains(plural) && !self.missing.contains_key(plural)
    }

    /// The time since `then`. Zero if it is unknown or in the future.
    fn since(&self, then: Option<Timestamp>) -> SignedDuration {
        self.now.duration_since(then.unwrap_or(self.now)).max(SignedDuration::ZERO)
    }

    /// Nodes whose client certificate was not signed by these CAs, during a CA rotation.
    pub fn unrenewed(&self, authorities: &[String]) -> Vec<Finding> {
        nodes::unrenewed(&self.lists.nodes, authorities)
    }

    /// Runs all checks whose resources were read, and reports the others.
    pub fn judge(&self, report: &mut Report) {
        for (name, reads, findings) in CHECKS {
            if reads.iter().all(|plural| self.read.contains(*plural)) {
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

/// The finding for a resource that could not be read. The cluster is then not known to be healthy.
fn blind(plural: &str, Lack { severity, why, .. }: &Lack) -> Finding {
    let remedy = "ask again; if it stays so, the log of the master says why";
    Finding::problem(plural, "nobody could look at all of these", remedy).because(why).graded(*severity)
}

/// Returns one finding for all resources that the user may not read. It names a role that would allow reading them.
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
