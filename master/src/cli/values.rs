//! Texts to values, each mistake a sentence that says what would have been right.

use std::net::IpAddr;
use std::time::Duration;

use api::validate::is_dns_subdomain;
use command::{Wanted, duration};

use crate::controllers::NAMES;
use crate::options::{AddressType, Controllers, ServiceRange};
use crate::pki::names;

/// The shortest life of certificates: for trying out how they are renewed.
const SHORTEST_LIFE: Duration = Duration::from_secs(60);
/// The longest: that of the authority that signs them.
const LONGEST_LIFE: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

/// The shortest grace of nodes: for trying out what becomes of them.
const SHORTEST_GRACE: Duration = Duration::from_secs(1);
/// The longest: a day.
const LONGEST_GRACE: Duration = Duration::from_secs(24 * 60 * 60);
/// The fewest nodes a second that lose their pods, if any do: one in about three hours.
const SLOWEST_RATE: f64 = 0.0001;
/// The most.
const FASTEST_RATE: f64 = 1000.0;

/// An address.
pub fn ip(text: &str) -> Result<IpAddr, Wanted> {
    text.parse().map_err(|_| "is no IP address".to_owned())
}

/// An address somebody else can reach: not that of all interfaces.
pub fn reachable_ip(text: &str) -> Result<IpAddr, Wanted> {
    let address = ip(text)?;
    if address.is_unspecified() || address.is_multicast() {
        return Err("is no address that a node can reach".to_owned());
    }
    Ok(address)
}

/// A port that is served.
pub fn port(text: &str) -> Result<u16, Wanted> {
    match text.parse() {
        Ok(0) | Err(_) => Err("is no port, write 1 to 65535".to_owned()),
        Ok(port) => Ok(port),
    }
}

/// How long certificates live: no longer than authorities, and long enough for those who hold them to ask for others.
pub fn life(text: &str) -> Result<Duration, Wanted> {
    let found = duration(text)?;
    if (SHORTEST_LIFE..=LONGEST_LIFE).contains(&found) {
        Ok(found)
    } else {
        Err("is no life of a certificate: write one from 60s to 87600h, which is ten years".to_owned())
    }
}

/// How long a node may be silent: longer than it takes to say something.
pub fn grace(text: &str) -> Result<Duration, Wanted> {
    let found = duration(text)?;
    if (SHORTEST_GRACE..=LONGEST_GRACE).contains(&found) {
        Ok(found)
    } else {
        Err("is no grace of nodes: write one from 1s to 24h; nodes say something every 10s".to_owned())
    }
}

/// The time between two of so many a second; none for 0.
pub fn pace(text: &str) -> Result<Option<Duration>, Wanted> {
    let wanted = || "is no rate, write how many nodes a second, like 0.1".to_owned();
    let rate: f64 = text.parse().map_err(|_| wanted())?;
    if rate == 0.0 {
        return Ok(None);
    }
    if !(SLOWEST_RATE..=FASTEST_RATE).contains(&rate) {
        return Err(format!("is neither 0 nor a rate from {SLOWEST_RATE} to {FASTEST_RATE} nodes a second"));
    }
    Duration::try_from_secs_f64(rate.recip()).map(Some).map_err(|_| wanted())
}

/// A whole number from 0 to 255.
pub fn small_number(text: &str) -> Result<u8, Wanted> {
    text.parse().map_err(|_| "is no whole number from 0".to_owned())
}

/// A DNS name or an address.
pub fn server_name(text: &str) -> Result<String, Wanted> {
    if text.parse::<IpAddr>().is_ok() || names::is_dns_name(text) {
        Ok(text.to_owned())
    } else {
        Err("is neither a DNS name nor an IP address".to_owned())
    }
}

/// The domain of a cluster, which fits behind `kubernetes.default.svc.`.
pub fn domain(text: &str) -> Result<String, Wanted> {
    let name = text.trim_end_matches('.').to_lowercase();
    let fits = names::is_dns_name(&format!("kubernetes.default.svc.{name}")) && is_dns_subdomain(&name);
    if fits { Ok(name) } else { Err("is no domain, write one like cluster.local".to_owned()) }
}

/// A network, and how many bits of it are given.
pub fn network(text: &str) -> Result<(IpAddr, u8), Wanted> {
    let wanted = || "is no network, write one like 10.96.0.0/12".to_owned();
    let (address, bits) = text.split_once('/').ok_or_else(wanted)?;
    let (address, bits) = (ip(address).map_err(|_| wanted())?, bits.parse().map_err(|_| wanted())?);
    let most = if address.is_ipv4() { 32 } else { 128 };
    if bits > most { Err(wanted()) } else { Ok((address, bits)) }
}

/// A network of services, the first address of which is the API's own.
pub fn service_range(text: &str) -> Result<ServiceRange, Wanted> {
    let (network, bits) = network(text)?;
    let most = if network.is_ipv4() { 30 } else { 126 };
    if bits > most {
        return Err("has no room for services, give it at least 4 addresses".to_owned());
    }
    Ok(ServiceRange { network, bits })
}

/// What an address of a node is, as a Node has it.
pub fn address_type(text: &str) -> Result<AddressType, Wanted> {
    let known = AddressType::PREFERRED;
    known.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
        let words: Vec<&str> = known.iter().map(|kind| kind.as_str()).collect();
        format!("is none of {}", words.join(", "))
    })
}

/// `*`, `none`, names, or `*` and names with a `-` before them.
pub fn controllers(text: &str) -> Result<Controllers, Wanted> {
    let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    let unknown = words.iter().find(|word| {
        let name = word.strip_prefix('-').unwrap_or(word);
        !["*", "none"].contains(*word) && !NAMES.contains(&name)
    });
    if let Some(unknown) = unknown {
        return Err(format!("names {unknown}; the controllers are {}", NAMES.join(", ")));
    }
    let owned = |words: &[&str]| words.iter().map(|word| word.trim_start_matches('-').to_owned()).collect();
    let (off, on): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with('-'));
    match (on.as_slice(), off.as_slice()) {
        (["*"], []) => Ok(Controllers::All),
        (["none"], []) => Ok(Controllers::None),
        (["*"], off) => Ok(Controllers::Without(owned(off))),
        (on, []) if !on.is_empty() && !on.contains(&"*") && !on.contains(&"none") => {
            Ok(Controllers::Only(owned(on)))
        }
        _ => Err("is neither none, nor names, nor * with names to leave out (*,-NAME)".to_owned()),
    }
}

/// The name of a gate, as pods have them.
pub fn gate(text: &str) -> Result<String, Wanted> {
    let name = text.rsplit_once('/').map_or(text, |(_, name)| name);
    let fits = names::is_dns_name(&name.to_lowercase().replace('_', "-")) && text.len() <= 63;
    if fits {
        Ok(text.to_owned())
    } else {
        Err("is no name of a gate, write one like example.com/images".to_owned())
    }
}

/// Yes or no.
pub fn is_true(text: &str) -> Result<bool, Wanted> {
    one_of(text, &["true", "false"]).map(|()| text == "true")
}

/// One of a few words.
pub fn one_of(text: &str, words: &[&str]) -> Result<(), Wanted> {
    if words.contains(&text) { Ok(()) } else { Err(format!("is none of {}", words.join(", "))) }
}
