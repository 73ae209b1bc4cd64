//! Cluster-info discovery: finds a cluster with a join string. It fetches the cluster info without trust and checks
//! its CA against the pin. Then it fetches the cluster info again over a connection that the pinned CA
//! authenticates.

use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::CertificateDer;

use super::access::{ClusterAccess, Credentials};
use super::api::Api;
use super::certificate;
use super::cluster_info::{ClusterInfo, PATH};
use super::error::ApiError;
use super::tls::Trust;

/// Clock skew up to which no warning is given.
const TOLERATED_CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(1);

/// A discovered cluster.
#[derive(Clone, Debug)]
pub struct Found {
    /// How to reach the cluster without credentials.
    pub known: ClusterAccess,
    /// The prefix of node user names.
    pub prefix: String,
    /// The time of the server's clock.
    pub server_time: Option<Timestamp>,
}

/// Discovers the cluster at the first server that matches the pin. Without a pin, the first server that answers is
/// trusted.
///
/// # Errors
/// If no server returns trusted cluster info. The error is the most useful one of all servers.
pub async fn discover(servers: &[String], pin: Option<&str>) -> Result<Found, ApiError> {
    let mut error = ApiError::invalid("the join string", "names no server");
    for (index, server) in servers.iter().enumerate() {
        match discover_at(server, pin).await {
            Ok(found) => return Ok(found),
            Err(ApiError::Unreachable { .. }) if index > 0 => {}
            Err(found) => error = found,
        }
    }
    Err(error)
}

/// Reads the cluster info of a known cluster from the first server that the CAs (PEM) authenticate.
///
/// # Errors
/// If no server returns valid cluster info.
pub async fn refetch(servers: &[String], authority: &[u8]) -> Result<ClusterInfo, ApiError> {
    let authorities = certificate::certificates(authority)
        .map_err(|why| ApiError::invalid("the certificate-authority of the kubeconfig", why))?;
    match fetch(servers, &Trust::Authorities(authorities)).await {
        Err(error @ ApiError::ClockSkew { .. }) => {
            // Only the time of this unauthenticated answer is used, as a hint.
            let hint = fetch(servers, &Trust::Any).await.ok().and_then(|info| info.server_time);
            Err(error.with_clock(hint))
        }
        other => other,
    }
}

/// Confirms changed cluster info. A master must return it over a connection that only the new CAs authenticate. The
/// known servers must return it over a connection that only known, active CAs authenticate.
///
/// Therefore this node cannot be redirected with the key of a retiring CA, or by another node with a certificate of the
/// cluster.
///
/// # Errors
/// If the cluster info is not trusted. The error is the reason.
pub async fn confirm(
    known: &ClusterAccess,
    info: ClusterInfo,
    servers_tried: &[String],
) -> Result<ClusterInfo, ApiError> {
    let invalid = |why| ApiError::invalid("the cluster info", why);
    let wanted = info.authorities().map_err(invalid)?;
    let active_authorities = known.active_authorities().map_err(invalid)?;
    let trusted = certificate::certificates(&known.authority).map_err(invalid)?;
    let others = info.servers.iter().filter(|server| !servers_tried.contains(server));
    let all: Vec<String> = servers_tried.iter().chain(others).cloned().collect();
    let brings_authorities =
        wanted.now.iter().chain(&wanted.retiring).any(|authority| !trusted.contains(authority));
    let mut confirmations = Vec::new();
    if active_authorities != wanted.now {
        confirmations.push(("the new CAs", wanted.now.clone(), all.clone()));
    }
    // If only servers are new, the masters may have moved to them.
    let known = if brings_authorities { servers_tried.to_vec() } else { all };
    confirmations.push(("the known CAs that are not retiring", active_authorities, known));
    let mut confirmed = info;
    for (trusted_cas, authorities, servers) in confirmations {
        confirmed = match fetch(&servers, &Trust::Masters(authorities)).await {
            Err(ApiError::OtherCluster { server, .. }) => {
                return Err(invalid(format!(
                    "cannot be confirmed: {server} has no certificate of {trusted_cas}"
                )));
            }
            other => other?,
        };
        if confirmed.authorities().map_err(invalid)? != wanted {
            return Err(invalid(format!("differs over a connection that trusts only {trusted_cas}")));
        }
    }
    Ok(confirmed)
}

/// Fetches the cluster info from the first of these servers that answers.
async fn fetch(servers: &[String], trust: &Trust) -> Result<ClusterInfo, ApiError> {
    let api = Api::with_trust(servers, trust, Credentials::Anonymous)?;
    let document = api.get(PATH).await?;
    let invalid = |why| ApiError::invalid(format!("the cluster info of {}{PATH}", api.server()), why);
    ClusterInfo::read(&document).map_err(invalid)
}

async fn discover_at(server: &str, pin: Option<&str>) -> Result<Found, ApiError> {
    let invalid = |why| ApiError::invalid(format!("the cluster info of {server}{PATH}"), why);
    let servers = [server.to_owned()];
    let authorities = |info: &ClusterInfo| {
        info.pinned(pin).map_err(|found| match pin {
            Some(wanted) => {
                ApiError::PinMismatch { server: server.to_owned(), found, wanted: wanted.to_owned() }
            }
            None => invalid(found),
        })
    };
    // This answer is unauthenticated. Only CAs that match the pin are used, and the time as a hint.
    let hint = fetch(&servers, &Trust::Any).await?;
    let pinned = authorities(&hint)?;
    let info = match fetch(&servers, &Trust::Masters(pinned.clone())).await {
        Ok(info) => info,
        Err(_) => {
            discover_via_node(&servers, pinned).await.map_err(|error| error.with_clock(hint.server_time))?
        }
    };
    authorities(&info)?;
    let (authority, retiring) = (info.trusted(), info.retiring().map_err(invalid)?);
    let known = ClusterAccess {
        servers: info.servers,
        authority,
        retiring,
        former: Vec::new(),
        credentials: Credentials::Anonymous,
    };
    Ok(Found { known, prefix: info.prefix, server_time: info.server_time })
}

/// Discovers masters through a node of the cluster. A node may only name servers. Until a master returns other CAs,
/// only the pinned ones are trusted.
async fn discover_via_node(
    servers: &[String],
    pinned: Vec<CertificateDer<'static>>,
) -> Result<ClusterInfo, ApiError> {
    let info = fetch(servers, &Trust::Authorities(pinned.clone())).await?;
    let alone = certificate::pem(&pinned);
    // Servers are kept even if no master answers at this moment.
    Ok(match fetch(&info.servers, &Trust::Masters(pinned)).await {
        Ok(of_master) => info.with_authorities(of_master.authority, of_master.retiring),
        Err(_) => info.with_authorities(alone, String::new()),
    })
}

impl Found {
    /// Returns a warning if the clock skew exceeds the tolerance. Certificates become valid five minutes before
    /// they are signed. A clock that is further behind rejects a new certificate.
    pub fn clock_skew_warning(&self, now: Timestamp) -> Option<String> {
        let apart = now.duration_since(self.server_time?).abs();
        let text = || {
            let seconds = apart.as_secs();
            format!(
                "the clocks of this machine and of the cluster differ by {seconds} s, so certificates may seem invalid: set \
                 the clock"
            )
        };
        (apart > TOLERATED_CLOCK_SKEW).then(text)
    }
}
