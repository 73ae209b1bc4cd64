//! Texts to values, each mistake a sentence that says what would have been right.

use std::net::IpAddr;
use std::time::Duration;

use command::Wanted;
pub use command::duration;
use ipnet::IpNet;

use crate::options::{PodNetwork, Taint};

/// A duration that is not zero.
pub fn positive_duration(text: &str) -> Result<Duration, Wanted> {
    let duration = duration(text)?;
    if duration.is_zero() { Err("must be more than 0".to_owned()) } else { Ok(duration) }
}

/// An address.
pub fn ip(text: &str) -> Result<IpAddr, Wanted> {
    text.parse().map_err(|_| "is no IP address".to_owned())
}

/// Who gives pods their network.
pub fn pod_network(text: &str) -> Result<PodNetwork, Wanted> {
    match text {
        "native" => Ok(PodNetwork::Native),
        "docker" => Ok(PodNetwork::Docker),
        "cni" => Err("is not in this version, write native or docker".to_owned()),
        _ => Err("is no network of pods, write native or docker".to_owned()),
    }
}

/// Ranges of addresses, one a family at most, each with room for a pod.
pub fn ranges(text: &str) -> Result<Vec<IpNet>, Wanted> {
    let mut ranges: Vec<IpNet> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let range: IpNet = part
            .parse()
            .map_err(|_| "is no range of addresses, write for example 10.244.1.0/24".to_owned())?;
        if range != range.trunc() {
            return Err(format!("is no range: {part} lies within {}", range.trunc()));
        }
        if let Some(why) = api::pod_ranges::unfit(&range) {
            return Err(why);
        }
        if range.max_prefix_len() - range.prefix_len() < 2 {
            return Err(format!("has no room for pods: {part} is a handful of addresses at most"));
        }
        let is_v4 = range.addr().is_ipv4();
        if ranges.iter().any(|other| other.addr().is_ipv4() == is_v4) {
            return Err("may name one range of IPv4 and one of IPv6".to_owned());
        }
        ranges.push(range);
    }
    Ok(ranges)
}

/// A port; 0 turns its server off.
pub fn port(text: &str) -> Result<u16, Wanted> {
    text.parse().map_err(|_| "is no port, write 1 to 65535, or 0 for none".to_owned())
}

/// A whole number from `least`.
pub fn at_least<N: std::str::FromStr + PartialOrd + std::fmt::Display>(
    text: &str,
    least: N,
) -> Result<N, Wanted> {
    match text.parse::<N>() {
        Ok(number) if number >= least => Ok(number),
        _ => Err(format!("is no whole number from {least}")),
    }
}

/// A node's name: a DNS subdomain.
pub fn node_name(text: &str) -> Result<String, Wanted> {
    let label = |label: &str| {
        let inside = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        !label.is_empty() && label.bytes().all(inside) && !label.starts_with('-') && !label.ends_with('-')
    };
    let name = text.trim().to_lowercase();
    if name.len() <= 253 && name.split('.').all(label) {
        Ok(name)
    } else {
        Err("is no name for a node, write lower case letters, digits, '-' and '.'".to_owned())
    }
}

/// `unix:///path` or `tcp://host:port`.
pub fn endpoint(text: &str) -> Result<String, Wanted> {
    let fits = |scheme: &str| text.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty());
    if fits("unix:///") || fits("tcp://") || fits("http://") {
        Ok(text.to_owned())
    } else {
        Err("is no endpoint, write unix:///path/to/socket or tcp://host:port".to_owned())
    }
}

/// `http://` or `https://`.
pub fn url(text: &str) -> Result<String, Wanted> {
    match text.parse::<http::Uri>() {
        Ok(uri) if matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some() => {
            Ok(text.to_owned())
        }
        _ => Err("is no URL, write http://host/path or https://host/path".to_owned()),
    }
}

/// `Name:value`.
pub fn header(text: &str) -> Result<(String, String), Wanted> {
    let wanted = || "is no header, write Name:value".to_owned();
    let (name, value) = text.split_once(':').ok_or_else(wanted)?;
    let (name, value) = (name.trim(), value.trim());
    name.parse::<http::HeaderName>().map_err(|_| wanted())?;
    value.parse::<http::HeaderValue>().map_err(|_| wanted())?;
    Ok((name.to_owned(), value.to_owned()))
}

/// `name=value`, a label.
pub fn label(text: &str) -> Result<(String, String), Wanted> {
    let wanted = || "is no label, write name=value of letters, digits, '-', '_', '.'".to_owned();
    let (name, value) = text.split_once('=').ok_or_else(wanted)?;
    let bare = name.rsplit('/').next().unwrap_or_default();
    if is_word(bare) && !bare.is_empty() && is_word(value) {
        Ok((name.to_owned(), value.to_owned()))
    } else {
        Err(wanted())
    }
}

/// `key=value:Effect` or `key:Effect`.
pub fn taint(text: &str) -> Result<Taint, Wanted> {
    let wanted = || "is no taint, write key=value:NoSchedule, PreferNoSchedule or NoExecute".to_owned();
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
