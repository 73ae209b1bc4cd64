//! The scheduler: a plain client of the API that gives every pod a node.
//!
//! What there is comes in by one informer a resource and is counted as it changes (`cluster`). A pod at a time is taken off the
//! `queue`, and the pure core says where it goes (`place`: every `filter`, then every `score`). It is counted there at once, and
//! `hands` write it while the next one is decided.

mod amounts;
mod cluster;
mod config;
mod events;
mod extender;
mod feeds;
mod filter;
mod hands;
mod keyed;
mod known;
mod labels;
mod mind;
mod node;
mod nominees;
mod owners;
mod place;
mod pod;
mod preempt;
mod queue;
mod read;
#[cfg(test)]
mod samples;
mod score;
mod state;
mod taints;
mod terms;
mod volumes;

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

pub use self::config::Config;
use self::events::Events;
use self::extender::Extenders;
use self::hands::Hands;
use self::mind::Mind;
use crate::controllers::{Client, Lease};

/// The user it is, and its name in the server's log and of its lease: the stock one's.
const USER: &str = "system:kube-scheduler";
const AGENT: &str = "kube-scheduler";

/// Places pods whenever it holds the lease, until told to stop. Of those who may run at the same time each is called something
/// else; who is called as before gets back what it held.
pub async fn run(client: Client, own: &str, config: Config, stopped: watch::Receiver<bool>) {
    let client = client.for_user(USER, AGENT);
    let lease = Lease::new(client.clone(), AGENT, own);
    lease.work(|| schedule(client.clone(), &config), stopped).await;
}

/// Places pods for as long as it is polled.
async fn schedule(client: Client, config: &Config) {
    let mind = Arc::new(Mind::of(config));
    let mut tasks = feeds::follow_all(&client, &mind);
    let (events, told) = Events::new();
    tasks.spawn(events::write(client.clone(), told));
    let extenders = Extenders::new(config.extenders.clone(), client.clone());
    let hands = Hands::new(client, mind.clone(), events, extenders);
    // What is under way ends with this: another one may decide by then.
    let mut under_way = JoinSet::new();
    loop {
        let free = hands.free().await;
        let decision = mind.next().await;
        while under_way.try_join_next().is_some() {}
        under_way.spawn(hands.clone().carry_out(decision, free));
    }
}
