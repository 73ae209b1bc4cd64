//! Controllers: plain clients of the API that see what is there and do what has to follow.
//!
//! All of them share one [`World`], which one informer a resource keeps as the server has it. A change puts keys into the
//! queues of those it concerns; a worker takes a key, looks, and does what a pure plan says. Nobody polls.

mod accounts;
mod agenda;
mod awake;
mod certificates;
mod client;
mod complaint;
mod discovery;
mod disruption;
mod endpoints;
mod events;
mod finished_jobs;
mod garbage;
mod informer;
mod lease;
mod namespace;
mod node_lifecycle;
mod node_ranges;
mod object;
mod pod_garbage;
mod queue;
mod quotas;
mod root_ca;
mod taint_eviction;
mod tell;
mod tokens;
mod trust;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

pub use self::certificates::Webhook;
pub use self::client::{Address, Client, Delete, Error, Json, Kind, Remote, Sieve};
pub use self::complaint::Complaint;
pub use self::events::happened;
use self::informer::InWorld;
pub use self::informer::{Table, follow};
pub use self::lease::{FAREWELL, Lease};
pub use self::object::Object;
use self::queue::{Controller, Queue, Running};
use self::world::{Change, Hear, World};
use crate::options::{Approval, Controllers, NodeAdmission, NodeLifecycle};
use crate::pki::{Names, Pki};

/// Who reads everything there is, and the lease of masters; what each controller does, it does as its own service account.
const READER: &str = "kube-controller-manager";
/// The lease of those that run beside a master: they know less than those inside one, and do not stand in for them.
const BESIDE: &str = "coracle-controllers";
/// Resources that nobody follows: another name of `events`.
const UNFOLLOWED: &[&str] = &["events.events.k8s.io"];
/// The resource whose objects bring resources, and what it brings them with.
const DEFINITIONS: &[&str] =
    &["customresourcedefinitions.apiextensions.k8s.io", "apiservices.apiregistration.k8s.io"];
/// After a definition has changed, until what it defines is served at the latest; asked once more then.
const SETTLED: Duration = Duration::from_secs(2);
/// How long controllers wait for all of the first look: one resource that cannot be read holds up none of the others. What
/// is deleted is asked for again first.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// Between two tries to ask a server what it serves.
const DISCOVER_AGAIN: Duration = Duration::from_secs(2);

/// The names of all controllers, as `--controllers` takes them: those of the stock ones where there are such.
pub const NAMES: &[&str] = &[
    namespace::NAME,
    garbage::NAME,
    accounts::NAME,
    root_ca::NAME,
    tokens::NAME,
    events::NAME,
    quotas::NAME,
    pod_garbage::NAME,
    finished_jobs::NAME,
    endpoints::legacy::NAME,
    endpoints::slices::NAME,
    endpoints::mirror::NAME,
    certificates::APPROVING,
    certificates::SIGNING,
    certificates::CLEANING,
    trust::NAME,
    node_ranges::NAME,
    node_lifecycle::NAME,
    taint_eviction::NAME,
    disruption::NAME,
];

/// What controllers know beyond what the server tells.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The root certificate of the cluster, PEM.
    pub root_ca: String,
    /// Who decides on requests for certificates and signs them; elsewhere than in a master nobody does.
    pub authority: Option<Authority>,
    /// Whether nodes get ranges for their pods from the master.
    pub gives_ranges: bool,
    /// When nodes that are silent lose their pods.
    pub lifecycle: NodeLifecycle,
}

/// What signs certificates, and who gets them.
#[derive(Clone, Debug)]
pub struct Authority {
    /// The authorities of the cluster.
    pub pki: Arc<Pki>,
    /// Who becomes a node.
    pub approval: Approval,
    /// Who is asked about that, where somebody is.
    pub webhook: Option<Webhook>,
    /// What the master serves under.
    pub masters: Names,
    /// How a node registers.
    pub nodes: NodeAdmission,
}

/// The lease by which of all masters of a store one at a time runs controllers, and of all who run them beside masters one, for who
/// calls themselves so.
pub fn lease(client: &Client, own: &str, facts: &Facts) -> Lease {
    let name = if facts.authority.is_some() { READER } else { BESIDE };
    Lease::new(client.for_reader(), name, own)
}

/// Runs these controllers for as long as it is polled.
pub async fn run(client: Client, which: Controllers, facts: Facts) {
    let world = World::default();
    let controllers = chosen(&client, &world, &which, &facts);
    if controllers.is_empty() {
        return;
    }
    let rediscover = Arc::new(Notify::new());
    world.tell(Arc::new(Definitions(rediscover.clone())));
    let mut tasks = JoinSet::new();
    let mut running = Vec::new();
    for controller in controllers {
        let one = Arc::new(Running { controller, queue: Arc::new(Queue::default()) });
        world.tell(one.clone());
        running.push(one);
    }
    tasks.spawn(follow_all(client.for_reader(), world.clone(), rediscover));
    // Until everything has been read once, what is not seen may be there: less is done in vain.
    if tokio::time::timeout(READ_WITHIN, world.read()).await.is_err() {
        tracing::warn!("not everything can be read; controllers begin with what can");
    }
    for one in running {
        for _ in 0..one.controller.workers() {
            tasks.spawn(queue::work(one.controller.clone(), one.queue.clone()));
        }
    }
    tracing::info!("controllers are running");
    while tasks.join_next().await.is_some() {}
}

fn chosen(client: &Client, world: &World, which: &Controllers, facts: &Facts) -> Vec<Arc<dyn Controller>> {
    let (of, world) = (|account: &str| client.for_account(account), || world.clone());
    let mut all: Vec<Arc<dyn Controller>> = vec![
        Arc::new(namespace::Namespaces::new(of("namespace-controller"), world())),
        Arc::new(garbage::Collector::new(of("generic-garbage-collector"), world())),
        Arc::new(accounts::Accounts::new(of("service-account-controller"), world())),
        Arc::new(root_ca::Publisher::new(
            of("root-ca-cert-publisher"),
            client.for_reader(),
            world(),
            facts.root_ca.clone(),
        )),
        // The stock one does it as this user, too.
        Arc::new(tokens::Filler::new(client.for_reader(), world(), &facts.root_ca)),
        // No stock role is for this: a stock store expires events by itself.
        Arc::new(events::Expiry::new(of("generic-garbage-collector"), world())),
        Arc::new(quotas::Usage::new(of("resourcequota-controller"), world())),
        Arc::new(pod_garbage::Collector::new(of("pod-garbage-collector"), world())),
        Arc::new(finished_jobs::Expiry::new(of("ttl-after-finished-controller"))),
        Arc::new(endpoints::legacy::Addresses::new(of("endpoint-controller"), world())),
        Arc::new(endpoints::slices::Slices::new(of("endpointslice-controller"), world())),
        Arc::new(endpoints::mirror::Mirror::new(of("endpointslicemirroring-controller"))),
        Arc::new(certificates::Cleaner::new(of(certificates::ACCOUNT))),
        Arc::new(node_lifecycle::Lifecycle::new(
            of("node-controller"),
            client.for_reader(),
            world(),
            &facts.lifecycle,
        )),
        Arc::new(taint_eviction::Evictions::new(of("node-controller"), world())),
        Arc::new(disruption::Budgets::new(of("disruption-controller"), world())),
    ];
    if let Some(authority) = &facts.authority {
        let account = || of(certificates::ACCOUNT);
        all.push(Arc::new(certificates::Approver::new(account(), world(), authority)));
        all.push(Arc::new(certificates::Signing::new(account(), client.for_master(), authority)));
        all.push(Arc::new(trust::Trust::new(of("node-controller"), authority.nodes.clone())));
    }
    if facts.gives_ranges {
        all.push(Arc::new(node_ranges::Ranges::new(of("node-controller"), world())));
    }
    all.into_iter().filter(|controller| which.has(controller.name())).collect()
}

impl Client {
    /// The same for who reads everything.
    fn for_reader(&self) -> Self {
        self.for_user(&format!("system:{READER}"), READER)
    }
}

/// Wakes discovery when resources may come or go.
struct Definitions(Arc<Notify>);

impl Hear for Definitions {
    fn hear(&self, change: &Change) {
        if DEFINITIONS.contains(&change.kind.qualified().as_str()) {
            self.0.notify_one();
        }
    }
}

/// What is followed, by the names of resources; those that follow go with it.
#[derive(Default)]
struct Followed {
    kinds: BTreeMap<String, (Arc<Kind>, AbortHandle)>,
    tasks: JoinSet<()>,
}

/// Follows every resource that the server has, and those that come.
async fn follow_all(client: Client, world: World, rediscover: Arc<Notify>) {
    let mut followed = Followed::default();
    let mut is_settled = true;
    let complaint = Complaint::default();
    loop {
        let pause = match discovery::discover(&client).await {
            Ok(served) => {
                let kinds: Vec<Kind> = served
                    .into_iter()
                    .filter(|served| served.can(&["list", "watch"]))
                    .map(|served| served.kind)
                    .filter(|kind| !UNFOLLOWED.contains(&kind.qualified().as_str()))
                    .collect();
                follow_these(&client, &world, &complaint, &mut followed, kinds);
                if is_settled { Duration::MAX } else { SETTLED }
            }
            Err(error) => {
                tracing::debug!(%error, "cannot ask what is served; trying again");
                complaint.tell("what is served", &error);
                DISCOVER_AGAIN
            }
        };
        is_settled = tokio::time::timeout(pause, rediscover.notified()).await.is_err();
    }
}

fn follow_these(
    client: &Client,
    world: &World,
    complaint: &Complaint,
    followed: &mut Followed,
    kinds: Vec<Kind>,
) {
    let names: Vec<String> = kinds.iter().map(Kind::qualified).collect();
    followed.kinds.retain(|name, (kind, task)| {
        let stays = names.contains(name);
        if !stays {
            task.abort();
            world.close(kind);
        }
        stays
    });
    let fresh: Vec<Arc<Kind>> = kinds
        .into_iter()
        .zip(&names)
        .filter(|(_, name)| !followed.kinds.contains_key(*name))
        .map(|(kind, _)| Arc::new(kind))
        .collect();
    // All rooms first: who waits for everything to be read must see all of it.
    for kind in &fresh {
        world.open(kind);
    }
    for kind in fresh {
        let table = InWorld::of(world.clone(), kind.clone());
        let following = informer::follow(client.clone(), kind.clone(), table, complaint.clone());
        let task = followed.tasks.spawn(following);
        followed.kinds.insert(kind.qualified(), (kind, task));
    }
}

#[cfg(test)]
mod tests;
