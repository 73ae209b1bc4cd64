//! Sees to it that what was laid stays: whoever takes a bridge or a cable away finds it made good, and named in an event. What the
//! cluster says of its nodes is taken in as soon as it is known.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::bridge::Missing;
use super::links::Link;
use super::netlink::Netlink;
use super::news::{Due, News};
use super::nodes::Joined;
use super::range::list;
use super::record::Record;
use super::state::{Key, Process};
use super::{Closed, Native, packets};
use crate::network::members::Members;
use crate::network::nft::Watch;
use crate::network::tell;
use crate::report::{Outbox, Severity};
use crate::runtime::netns::Namespace;

/// One change comes with others, our own among them: they are looked at together.
const SETTLES: Duration = Duration::from_millis(200);
/// After a look that failed, and twice as long after each that follows, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Ways to other nodes and the older firewall are looked at this often though nothing was heard: what becomes of those is not told.
const LOOK_ANYWAY: Duration = Duration::from_secs(60);

/// What the cluster says, `None` while it is not known.
pub type Cluster = watch::Receiver<Option<Arc<Members>>>;
/// Whether pods of the node have a network, and if not, why.
pub type Health = watch::Sender<Result<(), String>>;

/// Looks whenever something of the network or the cluster changes, until the kubelet ends. `cluster` is that of a node that
/// belongs to one; with `gives`, new pods get addresses here, and without it the network goes with the last pod that has any of it.
pub async fn keep(
    native: Arc<Native>,
    outbox: Arc<Outbox>,
    cluster: Option<Cluster>,
    gives: bool,
    health: Health,
) {
    let (standing, told) = (Standing::default(), BTreeSet::new());
    let mut keeper = Keeper { native, outbox, cluster, gives, health, standing, told };
    loop {
        match keeper.follow().await {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(%error, "cannot hear what becomes of the network of pods; trying again");
            }
        }
        tokio::time::sleep(FIRST_PAUSE).await;
    }
}

struct Keeper {
    native: Arc<Native>,
    outbox: Arc<Outbox>,
    cluster: Option<Cluster>,
    /// Whether new pods get addresses here.
    gives: bool,
    health: Health,
    standing: Standing,
    /// Troubles that are told and are still there.
    told: BTreeSet<String>,
}

/// What the last look at each came to.
struct Standing {
    links: Result<(), String>,
    rules: Result<(), String>,
    own: Result<(), String>,
    /// Of single pods, which are no reason not to run others.
    pods: BTreeSet<String>,
    /// Of other nodes.
    troubles: BTreeSet<String>,
    failed: Option<String>,
}

impl Default for Standing {
    fn default() -> Self {
        let (pods, troubles) = (BTreeSet::new(), BTreeSet::new());
        Self { links: Ok(()), rules: Ok(()), own: Ok(()), pods, troubles, failed: None }
    }
}

/// What the node belongs to, at one moment.
enum Belongs {
    Nowhere,
    /// To a cluster that has not been heard of.
    Somewhere,
    To(Arc<Members>),
}

/// What came of one look; `None` of what was not looked at.
struct Looked {
    mended: Vec<String>,
    links: Option<Result<(), String>>,
    pods: BTreeSet<String>,
    rules: Option<Result<(), String>>,
    joined: Option<Joined>,
}

impl Keeper {
    /// Ends when nobody has any of the network and nobody will.
    async fn follow(&mut self) -> io::Result<()> {
        let mut news = News::listen(self.cluster.is_none())?;
        let mut rules = Watch::new().map_err(io::Error::other)?;
        // All of it once before the first change, for what has happened while nobody looked.
        let mut due = Due::ALL;
        let mut pause = FIRST_PAUSE;
        let mut next = None;
        loop {
            if !self.gives && self.native.state().is_empty() {
                self.end(&mut news).await;
                return Ok(());
            }
            // It may have said something while something else was heard of.
            due.ways |= self.cluster.as_ref().is_some_and(|cluster| cluster.has_changed().unwrap_or(false));
            let belongs = self.belongs();
            let looked = self.native.run(move |native| native.look(due, &belongs)).await;
            self.take_in(looked);
            let has_failed = self.has_failed();
            let again = if has_failed { pause } else { LOOK_ANYWAY };
            if due == Due::ALL {
                pause = if has_failed { (pause * 2).min(LONGEST_PAUSE) } else { FIRST_PAUSE };
                next = None;
            }
            // Whatever else is heard meanwhile puts off nothing.
            let again = Instant::now() + again;
            next = Some(next.map_or(again, |next| again.min(next)));
            due = tokio::select! {
                heard = news.heard(&self.native) => heard,
                () = rules.changed() => Due { rules: true, ..Due::default() },
                () = changed(&mut self.cluster) => Due { ways: true, ..Due::default() },
                () = self.native.emptied.notified(), if !self.gives => continue,
                () = come(next) => Due::ALL,
            };
            if due.links || due.ways {
                tokio::time::sleep(SETTLES).await;
                due = news.all_heard(&self.native, due);
            }
        }
    }

    /// Takes down what earlier pods had, as soon as that can be: the engine gives all others theirs.
    async fn end(&self, news: &mut News) {
        self.health.send_if_modified(|known| std::mem::replace(known, Ok(())).is_err());
        let bridge = &self.native.bridge.name;
        let mut before = None;
        loop {
            let closed = self.native.run(Native::close).await.map_err(|error| error.to_string());
            if closed == Ok(Closed::Down) {
                tracing::info!(%bridge, "no pod has its network from the kubelet any more: what there was of it has been taken down");
                return;
            }
            if before.as_ref() != Some(&closed) {
                match &closed {
                    Ok(closed) => closed.tell(bridge),
                    Err(error) => {
                        tracing::warn!(%bridge, %error, "cannot take the bridge of this node down; trying again");
                    }
                }
            }
            before = Some(closed);
            tokio::select! {
                _ = news.heard(&self.native) => tokio::time::sleep(SETTLES).await,
                () = tokio::time::sleep(LOOK_ANYWAY) => {}
            }
            // One look is enough for all of it.
            news.all_heard(&self.native, Due::default());
        }
    }

    fn belongs(&mut self) -> Belongs {
        match &mut self.cluster {
            None => Belongs::Nowhere,
            Some(cluster) => match cluster.borrow_and_update().clone() {
                Some(members) => Belongs::To(members),
                None => Belongs::Somewhere,
            },
        }
    }

    fn has_failed(&self) -> bool {
        let Standing { links, rules, pods, failed, .. } = &self.standing;
        links.is_err() || rules.is_err() || !pods.is_empty() || failed.is_some()
    }

    /// Tells what is new, each trouble once for as long as it lasts.
    fn take_in(&mut self, looked: Looked) {
        let Looked { mut mended, links, pods, rules, joined } = looked;
        let standing = &mut self.standing;
        if links.is_some() {
            standing.pods = pods;
        }
        standing.links = links.unwrap_or_else(|| standing.links.clone());
        standing.rules = rules.unwrap_or_else(|| standing.rules.clone());
        let mut news = Vec::new();
        if let Some(joined) = joined {
            mended.extend(joined.mended);
            news = joined.news;
            (standing.own, standing.troubles, standing.failed) =
                (joined.standing, joined.troubles, joined.failed);
        }
        let node = &self.native.node;
        let note = |severity, reason, text| tell(&self.outbox, node, severity, reason, text);
        news.into_iter().for_each(|text| note(Severity::Normal, "PodNetworkRange", text));
        mended.into_iter().for_each(|text| note(Severity::Warning, "PodNetworkRepaired", text));
        let Standing { links, rules, own, pods, troubles, failed } = standing;
        // Where the engine gives new pods their network, they need no range.
        let counted = if self.gives { vec![&*links, rules, own] } else { vec![&*links, rules] };
        let whole = counted.into_iter().find(|one| one.is_err()).unwrap_or(&Ok(())).clone();
        self.health.send_if_modified(|known| std::mem::replace(known, whole.clone()) != whole);
        let errors = [&*links, rules, own].into_iter().filter_map(|one| one.as_ref().err());
        let others = pods.iter().chain(&*troubles).chain(failed.as_ref());
        let now: BTreeSet<String> = errors.chain(others).cloned().collect();
        for text in now.difference(&self.told) {
            note(Severity::Warning, "PodNetworkTrouble", text.clone());
        }
        if now.is_empty() && !self.told.is_empty() {
            let text = "the network of pods is as it should be again: nothing is in its way any more";
            note(Severity::Normal, "PodNetworkTroubleOver", text.to_owned());
        }
        self.told = now;
    }
}

/// Waits for news of the cluster, for ever when nobody will tell any.
async fn changed(cluster: &mut Option<Cluster>) {
    if let Some(cluster) = cluster
        && cluster.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

async fn come(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// What was missing of a bridge and is there again, as people read it.
fn again(bridge: &str, missing: &Missing) -> String {
    match missing {
        Missing::All => {
            format!("the bridge {bridge} was gone: it is there again, and pods are connected to it")
        }
        Missing::Power => format!("the bridge {bridge} was switched off: it is on again"),
        Missing::Addresses(gone) => {
            let gone = list(gone, " and ");
            format!("the bridge {bridge} had lost {gone}, the way out for pods: it has that again")
        }
        Missing::Refusals(ranges) => {
            let ranges = list(ranges, " and ");
            format!(
                "nothing kept what is for {ranges} here while the bridge {bridge} is away: a route does again"
            )
        }
        Missing::Settings(names) => {
            let (names, are) = (list(names, " and "), if names.len() == 1 { "was" } else { "were" });
            format!("{names} {are} switched off, without which packets of pods are not handed on: on again")
        }
    }
}

fn let_through(chain: String) -> String {
    format!("the chain {chain} would have dropped what pods send and get: it lets them through")
}

impl Native {
    /// Looks at what is due. Blocks.
    fn look(&self, due: Due, belongs: &Belongs) -> Looked {
        let (mended, pods) = (Vec::new(), BTreeSet::new());
        let mut looked = Looked { mended, links: None, pods, rules: None, joined: None };
        let done = self.work(|| {
            if due.links {
                let mended = self.mend(&mut looked.mended, &mut looked.pods);
                looked.links = Some(mended.map_err(|error| error.to_string()));
            }
            if due.rules {
                looked.rules = Some(self.mend_rules(&mut looked.mended).map_err(|error| error.to_string()));
            }
            if due == Due::ALL {
                match self.open_legacy() {
                    Ok(opened) => looked.mended.extend(opened.into_iter().map(let_through)),
                    // Where it was in use then, that was told when the node began.
                    Err(error) => tracing::warn!(%error, "the older firewall may keep packets from pods"),
                }
            }
            match belongs {
                Belongs::To(members) if due.ways => {
                    let joined = self.join(members);
                    self.gate.set(&joined.standing);
                    looked.joined = Some(joined);
                }
                Belongs::Nowhere if due.ways => self.leave()?,
                Belongs::To(_) | Belongs::Nowhere | Belongs::Somewhere => {}
            }
            Ok(())
        });
        if let Err(error) = done {
            looked.links = Some(Err(error.to_string()));
        }
        looked
    }

    /// Looks at the bridge and at every cable, and makes good what is not as it was laid; tells what that was, and what cannot be
    /// mended of one pod, which keeps no other from it.
    fn mend(&self, mended: &mut Vec<String>, pods: &mut BTreeSet<String>) -> io::Result<()> {
        let mut netlink = Netlink::open()?;
        let own = &self.ranges().own;
        let (bridge, missing) = self.bridge.ensure(&mut netlink, &own.all())?;
        let name = &self.bridge.name;
        let is_new = missing.contains(&Missing::All);
        mended.extend(missing.iter().map(|missing| again(name, missing)));
        let cables = self.bridge.cables(&mut netlink, &bridge)?;
        let laid: Vec<_> = self
            .state()
            .all_up()
            .filter(|(_, record, _)| own.has(&record.addresses))
            .map(|(key, record, to)| (key.clone(), record.clone(), to))
            .collect();
        for (key, record, leads_to) in laid {
            let cable = self.bridge.cable(&key);
            let (done, what) = match cables.get(&cable) {
                Some(link) if link.is_up && link.bridge == Some(bridge.index) => continue,
                Some(link) => {
                    let plugged = self.bridge.plug_in(&mut netlink, &bridge, link);
                    (plugged.map(|()| !is_new), format!("was off or not on {name}"))
                }
                // Or it was laid while they were listed.
                None if netlink.find(&cable)?.is_some() => continue,
                None => {
                    (self.lay_anew(&mut netlink, &bridge, &key, &record, leads_to), "was gone".to_owned())
                }
            };
            match done {
                Ok(true) => mended.push(format!("{cable} {what}: pod {} is connected again", record.pod())),
                Ok(false) => {}
                Err(error) => {
                    let pod = record.pod();
                    pods.insert(format!("{cable} {what}, and pod {pod} cannot be connected: {error}"));
                }
            }
        }
        Ok(())
    }

    /// Looks at the rules for packets and sets them again where somebody took them away.
    fn mend_rules(&self, mended: &mut Vec<String>) -> io::Result<()> {
        let repairs = self.ensure_rules()?;
        if repairs.table {
            mended.push(format!(
                "the table {} of packet rules was gone or changed: it is as it was",
                self.bridge.name
            ));
        }
        if repairs.cluster {
            mended.push(
                "which addresses are those of pods was changed in the packet rules: it is as it was"
                    .to_owned(),
            );
        }
        if !repairs.ports.is_empty() {
            mended.push(
                "ports of the host that lead to pods were gone or changed: they are as they were".to_owned(),
            );
        }
        mended.extend(packets::closed(&repairs));
        mended.extend(repairs.opened.into_iter().map(let_through));
        Ok(())
    }

    /// Whether there was anything to lay it to: as a rule it went with the pod.
    fn lay_anew(
        &self,
        netlink: &mut Netlink,
        bridge: &Link,
        key: &Key,
        record: &Record,
        leads_to: Option<Process>,
    ) -> io::Result<bool> {
        let Some((pid, number)) = leads_to else { return Ok(false) };
        let Some(namespace) = Namespace::of_pod(pid).ok().filter(|found| found.number == number) else {
            return Ok(false);
        };
        self.bridge.lay(netlink, bridge, &self.ranges().own.all(), (key, record), &namespace)?;
        Ok(true)
    }
}
