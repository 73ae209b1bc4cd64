//! Parsers of flag values. Each error says which values are valid.

use std::net::IpAddr;
use std::time::Duration;

use apiserver::admission::ServiceRange;
use command::InvalidValue;
pub use command::duration;
use ipnet::IpNet;

use crate::options::{PodNetwork, ServiceProxyMode, Taint, Texts};

/// Parses a duration greater than zero.
pub fn positive_duration(text: &str) -> Result<Duration, InvalidValue> {
    let duration = duration(text)?;
    if duration.is_zero() { Err("must be greater than 0".to_owned()) } else { Ok(duration) }
}

/// Parses an IP address.
pub fn ip(text: &str) -> Result<IpAddr, InvalidValue> {
    text.parse().map_err(|_| "is not an IP address".to_owned())
}

/// Parses the provider of the pod network.
pub fn pod_network(text: &str) -> Result<PodNetwork, InvalidValue> {
    match text {
        "native" => Ok(PodNetwork::Native),
        "docker" => Ok(PodNetwork::Docker),
        "cni" => Err("is not supported; write native or docker".to_owned()),
        _ => Err("is not a pod network; write native or docker".to_owned()),
    }
}

/// Parses the service proxy.
pub fn service_proxy(text: &str) -> Result<ServiceProxyMode, InvalidValue> {
    match text {
        "nftables" => Ok(ServiceProxyMode::Nftables),
        "none" => Ok(ServiceProxyMode::None),
        _ => Err("is not a service proxy; write nftables or none".to_owned()),
    }
}

/// Parses the ranges of cluster IPs: at most one per IP family.
pub fn service_ranges(text: &str) -> Result<Vec<ServiceRange>, InvalidValue> {
    let range = |range: IpNet| ServiceRange { network: range.addr(), bits: range.prefix_len() };
    let found: Vec<ServiceRange> = ranges(text)?.into_iter().map(range).collect();
    if found.is_empty() { Err("is empty; write for example 10.96.0.0/12".to_owned()) } else { Ok(found) }
}

/// Parses pod CIDRs: at most one per IP family, each large enough for a pod.
pub fn ranges(text: &str) -> Result<Vec<IpNet>, InvalidValue> {
    let mut ranges: Vec<IpNet> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let range: IpNet =
            part.parse().map_err(|_| "is not a CIDR; write for example 10.244.1.0/24".to_owned())?;
        if range != range.trunc() {
            return Err(format!("is not a network address: {part} is within {}", range.trunc()));
        }
        if let Some(why) = api::pod_cidr::reject_special_use(&range) {
            return Err(why);
        }
        if range.max_prefix_len() - range.prefix_len() < 2 {
            return Err(format!("is too small for pods: {part}"));
        }
        let is_v4 = range.addr().is_ipv4();
        if ranges.iter().any(|other| other.addr().is_ipv4() == is_v4) {
            return Err(
                "has two CIDRs of one IP family; give at most one for IPv4 and one for IPv6".to_owned()
            );
        }
        ranges.push(range);
    }
    Ok(ranges)
}

/// Parses a port; 0 disables the server.
pub fn port(text: &str) -> Result<u16, InvalidValue> {
    text.parse().map_err(|_| "is not a port; write 1 to 65535, or 0 for none".to_owned())
}

/// Parses a whole number of at least `least`.
pub fn at_least<N: std::str::FromStr + PartialOrd + std::fmt::Display>(
    text: &str,
    least: N,
) -> Result<N, InvalidValue> {
    match text.parse::<N>() {
        Ok(number) if number >= least => Ok(number),
        _ => Err(format!("is not a whole number of at least {least}")),
    }
}

/// Parses a node name, which is a DNS subdomain.
pub fn node_name(text: &str) -> Result<String, InvalidValue> {
    let label = |label: &str| {
        let inside = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        !label.is_empty() && label.bytes().all(inside) && !label.starts_with('-') && !label.ends_with('-')
    };
    let name = text.trim().to_lowercase();
    if name.len() <= 253 && name.split('.').all(label) {
        Ok(name)
    } else {
        Err("is not a node name; write lower case letters, digits, '-' and '.'".to_owned())
    }
}

/// Parses the thresholds of the eviction manager, `signal<value,...`. An empty text is an empty map.
pub fn thresholds(text: &str) -> Result<Texts, InvalidValue> {
    texts(text, '<', "memory.available<100Mi,nodefs.available<10%")
}

/// Parses periods or amounts by eviction signal, `signal=value,...`.
pub fn by_signal(text: &str) -> Result<Texts, InvalidValue> {
    texts(text, '=', "memory.available=1m30s or nodefs.available=2Gi")
}

fn texts(text: &str, separator: char, example: &str) -> Result<Texts, InvalidValue> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let entries = parts.map(|part| {
        let entry = part.split_once(separator).map(|(name, value)| (name.trim().into(), value.trim().into()));
        entry.ok_or_else(|| format!("is not a list of eviction signals; write for example {example}"))
    });
    entries.collect()
}

/// Parses `unix:///path` or `tcp://host:port`.
pub fn endpoint(text: &str) -> Result<String, InvalidValue> {
    let fits = |scheme: &str| text.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty());
    if fits("unix:///") || fits("tcp://") || fits("http://") {
        Ok(text.to_owned())
    } else {
        Err("is not an endpoint; write unix:///path/to/socket or tcp://host:port".to_owned())
    }
}

/// Parses an `http://` or `https://` URL.
pub fn url(text: &str) -> Result<String, InvalidValue> {
    match text.parse::<http::Uri>() {
        Ok(uri) if matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some() => {
            Ok(text.to_owned())
        }
        _ => Err("is not a URL; write http://host/path or https://host/path".to_owned()),
    }
}

/// Parses an HTTP header, `Name:value`.
pub fn header(text: &str) -> Result<(String, String), InvalidValue> {
    let wanted = || "is not a header; write Name:value".to_owned();
    let (name, value) = text.split_once(':').ok_or_else(wanted)?;
    let (name, value) = (name.trim(), value.trim());
    name.parse::<http::HeaderName>().map_err(|_| wanted())?;
    value.parse::<http::HeaderValue>().map_err(|_| wanted())?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Parses a label, `name=value`.
pub fn label(text: &str) -> Result<(String, String), InvalidValue> {
    let wanted = || "is not a label; write name=value of letters, digits, '-', '_', '.'".to_owned();
    let (name, value) = text.split_once('=').ok_or_else(wanted)?;
    let bare = name.rsplit('/').next().unwrap_or_default();
    if is_word(bare) && !bare.is_empty() && is_word(value) {
        Ok((name.to_owned(), value.to_owned()))
    } else {
        Err(wanted())
    }
}

/// Parses a taint, `key=value:Effect` or `key:Effect`.
pub fn taint(text: &str) -> Result<Taint, InvalidValue> {
    let wanted = || "is not a taint; write key=value:NoSchedule, PreferNoSchedule or NoExecute".to_owned();
    let (what, effect) = text.rsplit_once(':').ok_or_else(wanted)?;
    let (key, value) = what.split_once('=').unwrap_or((what, ""));
    let known = matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute");
    if known && !key.is_empty() && is_word(key.rsplit('/').next().unwrap_or_default()) && is_word(value) {
        Ok(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() })
    } else {
        Err(wanted())
    }
}

fn is_word(text: &str) -> bool {
    let end = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && end(text.chars().next())
        && end(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}
