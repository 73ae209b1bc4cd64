//! From a join string to a cluster: the document of whoever answers, its hash, and the document again from who is of that cluster.

use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::CertificateDer;

use super::access::{Known, Shows};
use super::api::Api;
use super::certificate;
use super::cluster_info::{ClusterInfo, PATH};
use super::tls::Trust;
use super::trouble::Trouble;

/// How far clocks may be apart without a word.
const WORTH_SAYING: SignedDuration = SignedDuration::from_mins(1);

/// A cluster that is believed.
#[derive(Clone, Debug)]
pub struct Found {
    /// The way there, for a stranger.
    pub known: Known,
    /// What comes before the node's name in its user.
    pub prefix: String,
    /// What the clock of its server said.
    pub server_time: Option<Timestamp>,
}

/// Asks these servers, the first that tells of the cluster of that pin counting; without a pin, whoever answers first.
///
/// # Errors
/// What is in the way at the server that is most to be believed.
pub async fn cluster(servers: &[String], pin: Option<&str>) -> Result<Found, Trouble> {
    let mut trouble = Trouble::damaged("the join string", "names no server");
    for (index, server) in servers.iter().enumerate() {
        match of(server, pin).await {
            Ok(found) => return Ok(found),
            Err(Trouble::Unreachable { .. }) if index > 0 => {}
            Err(found) => trouble = found,
        }
    }
    Err(trouble)
}

/// What a cluster tells of itself that is known already: the first of these servers counts that its authorities (PEM) vouch for.
///
/// # Errors
/// When none of them tells, or not something that can be used.
pub async fn again(servers: &[String], authority: &[u8]) -> Result<ClusterInfo, Trouble> {
    let authorities = certificate::certificates(authority)
        .map_err(|why| Trouble::damaged("the certificate-authority of the kubeconfig", why))?;
    match told(servers, &Trust::Authorities(authorities)).await {
        Err(trouble @ Trouble::Clock { .. }) => {
            // Nothing of it is believed but the time, as a hint.
            let hint = told(servers, &Trust::Anybody).await.ok().and_then(|info| info.server_time);
            Err(trouble.with_clock(hint))
        }
        told => told,
    }
}

/// Makes sure of what is new: a master has to tell it again to who believes the authorities that it tells of alone, and to who
/// believes none of those that were on their way out already, at the servers that were asked before. So nobody is led astray by whoever
/// has the key of a root that is being replaced, nor by a node, which has certificates of the cluster too.
///
/// # Errors
/// Why it is not to be believed.
pub async fn confirmed(known: &Known, info: ClusterInfo, asked: &[String]) -> Result<ClusterInfo, Trouble> {
    let damaged = |why| Trouble::damaged("what the cluster tells of its authorities", why);
    let wanted = info.authorities().map_err(damaged)?;
    let staying = known.staying().map_err(damaged)?;
    let believed = certificate::certificates(&known.authority).map_err(damaged)?;
    let others = info.servers.iter().filter(|told| !asked.contains(told));
    let all: Vec<String> = asked.iter().chain(others).cloned().collect();
    let brings_authorities = wanted.now.iter().chain(&wanted.leaving).any(|told| !believed.contains(told));
    let mut asks = Vec::new();
    if staying != wanted.now {
        asks.push(("the authorities that it tells of", wanted.now.clone(), all.clone()));
    }
    // Where only servers are new, masters may have moved there.
    let known = if brings_authorities { asked.to_vec() } else { all };
    asks.push(("the authorities that were to stay", staying, known));
    let mut confirmed = info;
    for (whose, authorities, servers) in asks {
        confirmed = match told(&servers, &Trust::Masters(authorities)).await {
            Err(Trouble::OtherCluster { server, .. }) => {
                return Err(damaged(format!("cannot be confirmed: {server} shows nothing of {whose}")));
            }
            told => told?,
        };
        if confirmed.authorities().map_err(damaged)? != wanted {
            return Err(damaged(format!("is not what it tells to who believes {whose} alone")));
        }
    }
    Ok(confirmed)
}

/// The document of the first of these servers that answers.
async fn told(servers: &[String], trust: &Trust) -> Result<ClusterInfo, Trouble> {
    let api = Api::of(servers.to_vec(), trust, Shows::Nothing)?;
    let document = api.get(PATH).await?;
    let damaged = |why| Trouble::damaged(format!("what {}{PATH} tells", api.server()), why);
    ClusterInfo::read(&document).map_err(damaged)
}

async fn of(server: &str, pin: Option<&str>) -> Result<Found, Trouble> {
    let damaged = |why| Trouble::damaged(format!("what {server}{PATH} tells"), why);
    let servers = [server.to_owned()];
    let authorities = |info: &ClusterInfo| {
        info.pinned(pin).map_err(|found| match pin {
            Some(wanted) => Trouble::Pin { server: server.to_owned(), found, wanted: wanted.to_owned() },
            None => damaged(found),
        })
    };
    // Of what somebody says who may be anybody nothing is believed but what the pin is of, and the time, as a hint.
    let hint = told(&servers, &Trust::Anybody).await?;
    let pinned = authorities(&hint)?;
    let info = match told(&servers, &Trust::Masters(pinned.clone())).await {
        Ok(info) => info,
        Err(_) => {
            of_messenger(&servers, pinned).await.map_err(|trouble| trouble.with_clock(hint.server_time))?
        }
    };
    authorities(&info)?;
    let (authority, leaving) = (info.believed(), info.leaving().map_err(damaged)?);
    let known =
        Known { servers: info.servers, authority, leaving, before: Vec::new(), shows: Shows::Nothing };
    Ok(Found { known, prefix: info.prefix, server_time: info.server_time })
}

/// What somebody tells who is of the cluster and no master: where masters are. Of other authorities a master has to tell; until one
/// does, those that are pinned are all.
async fn of_messenger(
    servers: &[String],
    pinned: Vec<CertificateDer<'static>>,
) -> Result<ClusterInfo, Trouble> {
    let info = told(servers, &Trust::Authorities(pinned.clone())).await?;
    let alone = certificate::pem(&pinned);
    // Masters that are away for a moment are remembered, too.
    Ok(match told(&info.servers, &Trust::Masters(pinned)).await {
        Ok(of_master) => info.with_authorities(of_master.authority, of_master.retiring),
        Err(_) => info.with_authorities(alone, String::new()),
    })
}

impl Found {
    /// What to say of the two clocks, when that is worth it: certificates begin five minutes before they are signed, and a machine
    /// that is further behind does not take its own.
    pub fn clocks(&self, now: Timestamp) -> Option<String> {
        let apart = now.duration_since(self.server_time?).abs();
        let text = || {
            let seconds = apart.as_secs();
            format!(
                "the clocks of this machine and of the cluster are {seconds} s apart, certificates may seem not to hold: set the clock"
            )
        };
        (apart > WORTH_SAYING).then(text)
    }
}
