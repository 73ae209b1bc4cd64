//! Parsers for flag values. Each error says what would be valid.

use std::net::IpAddr;
use std::time::Duration;

use api::validate::is_dns_subdomain;
use command::{InvalidValue, duration};

use crate::admission::plugin_names;
use crate::controllers::names as controller_names;
use crate::options::{AddressType, Controllers, ServiceRange};
use crate::pki::names;

/// Shortest certificate lifetime. It is short so that tests can check the renewal.
const SHORTEST_LIFE: Duration = Duration::from_secs(60);
/// Longest certificate lifetime; that of the CA.
const LONGEST_LIFE: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

/// Shortest grace period of nodes. It is short for tests.
const SHORTEST_GRACE: Duration = Duration::from_secs(1);
/// Longest grace period of nodes; a day.
const LONGEST_GRACE: Duration = Duration::from_secs(24 * 60 * 60);
/// Lowest eviction rate above 0, in nodes per second. It evicts one node in about three hours.
const SLOWEST_RATE: f64 = 0.0001;
/// Highest eviction rate, in nodes per second.
const FASTEST_RATE: f64 = 1000.0;

/// Parses the name of an admission plugin that users may enable or disable.
pub fn admission_plugin(text: &str) -> Result<String, InvalidValue> {
    let names = plugin_names();
    if names.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("is not an admission plugin; the plugins are {}", names.join(", ")))
}

/// Parses an IP address.
pub fn ip(text: &str) -> Result<IpAddr, InvalidValue> {
    text.parse().map_err(|_| "is not an IP address".to_owned())
}

/// Parses an IP address that nodes can connect to.
pub fn reachable_ip(text: &str) -> Result<IpAddr, InvalidValue> {
    let address = ip(text)?;
    if address.is_unspecified() || address.is_multicast() {
        return Err("is not an address that a node can reach".to_owned());
    }
    Ok(address)
}

/// Parses a TCP port.
pub fn port(text: &str) -> Result<u16, InvalidValue> {
    match text.parse() {
        Ok(0) | Err(_) => Err("is not a port; write 1 to 65535".to_owned()),
        Ok(port) => Ok(port),
    }
}

/// Parses a certificate lifetime, at most that of the CA.
pub fn life(text: &str) -> Result<Duration, InvalidValue> {
    let found = duration(text)?;
    if (SHORTEST_LIFE..=LONGEST_LIFE).contains(&found) {
        Ok(found)
    } else {
        Err("is not a valid certificate lifetime: write one from 60s to 87600h (ten years)".to_owned())
    }
}

/// Parses the grace period for heartbeats.
pub fn grace(text: &str) -> Result<Duration, InvalidValue> {
    let found = duration(text)?;
    if (SHORTEST_GRACE..=LONGEST_GRACE).contains(&found) {
        Ok(found)
    } else {
        Err("is not a valid grace period: write one from 1s to 24h; nodes send a heartbeat every 10s"
            .to_owned())
    }
}

/// Converts a rate per second to the interval between two events. `None` for 0.
pub fn pace(text: &str) -> Result<Option<Duration>, InvalidValue> {
    let wanted = || "is not a rate, write nodes per second, like 0.1".to_owned();
    let rate: f64 = text.parse().map_err(|_| wanted())?;
    if rate == 0.0 {
        return Ok(None);
    }
    if !(SLOWEST_RATE..=FASTEST_RATE).contains(&rate) {
        return Err(format!("must be 0 or from {SLOWEST_RATE} to {FASTEST_RATE} nodes per second"));
    }
    Duration::try_from_secs_f64(rate.recip()).map(Some).map_err(|_| wanted())
}

/// Parses a number from 0 to 255.
pub fn small_number(text: &str) -> Result<u8, InvalidValue> {
    text.parse().map_err(|_| "is not a whole number; write 0 or more".to_owned())
}

/// Parses a DNS name or an IP address.
pub fn server_name(text: &str) -> Result<String, InvalidValue> {
    if text.parse::<IpAddr>().is_ok() || names::is_dns_name(text) {
        Ok(text.to_owned())
    } else {
        Err("is neither a DNS name nor an IP address".to_owned())
    }
}

/// Parses the cluster domain, which must be valid after `kubernetes.default.svc.`.
pub fn domain(text: &str) -> Result<String, InvalidValue> {
    let name = text.trim_end_matches('.').to_lowercase();
    let fits = names::is_dns_name(&format!("kubernetes.default.svc.{name}")) && is_dns_subdomain(&name);
    if fits { Ok(name) } else { Err("is not a domain; write one like cluster.local".to_owned()) }
}

/// Parses a CIDR into address and prefix length.
pub fn network(text: &str) -> Result<(IpAddr, u8), InvalidValue> {
    let wanted = || "is not a network; write one like 10.96.0.0/12".to_owned();
    let (address, bits) = text.split_once('/').ok_or_else(wanted)?;
    let (address, bits) = (ip(address).map_err(|_| wanted())?, bits.parse().map_err(|_| wanted())?);
    let most = if address.is_ipv4() { 32 } else { 128 };
    if bits > most { Err(wanted()) } else { Ok((address, bits)) }
}

/// Parses a service CIDR. Its first address belongs to the API server.
pub fn service_range(text: &str) -> Result<ServiceRange, InvalidValue> {
    let (network, bits) = network(text)?;
    let most = if network.is_ipv4() { 30 } else { 126 };
    if bits > most {
        return Err("is too small; it needs at least 4 addresses".to_owned());
    }
    Ok(ServiceRange { network, bits })
}

/// Parses a node address type.
pub fn address_type(text: &str) -> Result<AddressType, InvalidValue> {
    let known = AddressType::PREFERRED;
    known.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
        let words: Vec<&str> = known.iter().map(|kind| kind.as_str()).collect();
        format!("is none of {}", words.join(", "))
    })
}

/// Parses a selection of controllers: `*`, `none`, names, or `*` with names to exclude (`-NAME`).
pub fn controllers(text: &str) -> Result<Controllers, InvalidValue> {
    let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    let unknown = words.iter().find(|word| {
        let name = word.strip_prefix('-').unwrap_or(word);
        !["*", "none"].contains(*word) && !controller_names().contains(&name)
    });
    if let Some(unknown) = unknown {
        return Err(format!("names {unknown}; the controllers are {}", controller_names().join(", ")));
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
        _ => Err("must be none, names, or * with names to exclude (*,-NAME)".to_owned()),
    }
}

/// Parses the name of a scheduling gate.
pub fn gate(text: &str) -> Result<String, InvalidValue> {
    let name = text.rsplit_once('/').map_or(text, |(_, name)| name);
    let fits = names::is_dns_name(&name.to_lowercase().replace('_', "-")) && text.len() <= 63;
    if fits {
        Ok(text.to_owned())
    } else {
        Err("is not a valid scheduling gate, write one like example.com/images".to_owned())
    }
}

/// Parses a boolean.
pub fn is_true(text: &str) -> Result<bool, InvalidValue> {
    one_of(text, &["true", "false"]).map(|()| text == "true")
}

/// Checks that the text is one of these words.
pub fn one_of(text: &str, words: &[&str]) -> Result<(), InvalidValue> {
    if words.contains(&text) { Ok(()) } else { Err(format!("is none of {}", words.join(", "))) }
}
