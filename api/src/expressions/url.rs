//! CEL library for URLs: `url(self).getScheme() == 'https'`.

use std::collections::BTreeMap;

use cel::arguments::{own, text};
use cel::{Error, Function, Key, Kind, Returns, Type, Value, function, method};

use super::foreign;
use crate::percent;

const NAME: &str = "kubernetes.URL";
const TEXT: &[Kind] = &[Kind::Text];
const ONE: &[Kind] = &[Kind::Opaque(NAME)];
const WORD: Returns = Returns::Is(Type::String);

/// A URL with a scheme, or an absolute path.
#[derive(Debug, Default, PartialEq, Eq)]
struct Url {
    scheme: String,
    /// The host, with the port if there is one.
    host: String,
    path: String,
    query: String,
}

foreign!(Url, NAME);

pub(super) static FUNCTIONS: &[Function] = &[
    function("url", TEXT, Returns::Is(Type::Opaque(NAME)), |of, budget| {
        let text = text(of, 0)?;
        budget.charge_bytes(text.len())?;
        let wrong = || {
            Error::failed(format!(
                "URL parse error during conversion from string: parse {text:?}: invalid URI for request"
            ))
        };
        read(text).map(Value::opaque).ok_or_else(wrong)
    }),
    function("isURL", TEXT, Returns::Is(Type::Bool), |of, budget| {
        let text = text(of, 0)?;
        budget.charge_bytes(text.len())?;
        Ok(Value::Bool(read(text).is_some()))
    }),
    method("getScheme", ONE, WORD, |of, budget| {
        let scheme = &one(of)?.scheme;
        budget.charge_bytes(scheme.len())?;
        Ok(Value::from(scheme.as_str()))
    }),
    method("getHost", ONE, WORD, |of, budget| {
        let host = &one(of)?.host;
        budget.charge_bytes(host.len())?;
        Ok(Value::from(host.as_str()))
    }),
    method("getHostname", ONE, WORD, |of, budget| {
        let host = &one(of)?.host;
        budget.charge_bytes(host.len())?;
        let name = host_and_port(host).0;
        Ok(Value::from(name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)))
    }),
    method("getPort", ONE, WORD, |of, budget| {
        let host = &one(of)?.host;
        budget.charge_bytes(host.len())?;
        Ok(Value::from(host_and_port(host).1))
    }),
    method("getEscapedPath", ONE, WORD, |of, budget| {
        let path = &one(of)?.path;
        budget.charge_bytes(path.len())?;
        Ok(Value::from(percent::encode_path(path)))
    }),
    method("getQuery", ONE, Returns::Is(Type::Dyn), |of, budget| {
        let query = &one(of)?.query;
        budget.charge_bytes(query.len())?;
        Ok(pairs(query))
    }),
];

fn one(of: &[Value]) -> Result<&Url, Error> {
    own(of, 0)
}

fn read(text: &str) -> Option<Url> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return None;
    }
    let (text, query) = text.split_once('?').unwrap_or((text, ""));
    let is_path = text.starts_with('/');
    let (scheme, rest) = if is_path { ("", text) } else { text.split_once(':')? };
    let mut letters = scheme.chars();
    let is_scheme = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if !is_path && !is_scheme {
        return None;
    }
    let mut url = Url { scheme: scheme.to_ascii_lowercase(), query: query.to_owned(), ..Url::default() };
    // A URL such as `mailto:me` has no host and no path.
    if !rest.starts_with('/') {
        return Some(url);
    }
    let path = match rest.strip_prefix("//") {
        Some(rest) if !is_path => {
            let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            if !is_host(host) {
                return None;
            }
            url.host = host.to_owned();
            path
        }
        _ => rest,
    };
    percent::decode(path)?;
    url.path = path.to_owned();
    Some(url)
}

fn host_and_port(host: &str) -> (&str, &str) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (host, ""),
    }
}

fn is_host(host: &str) -> bool {
    let (name, port) = host_and_port(host);
    let is_name = match name.strip_prefix('[') {
        Some(address) => address.strip_suffix(']').is_some_and(|address| address.contains(':')),
        None => name.chars().all(|c| !c.is_whitespace() && !r#""<>[]^`{|}\#"#.contains(c) && c != ':'),
    };
    is_name && port.bytes().all(|byte| byte.is_ascii_digit()) && percent::decode(name).is_some()
}

/// Decodes a name or value of a query, in which `+` is a space.
fn query_text(text: &str) -> Option<String> {
    let bytes = percent::decode(&text.replace('+', " "))?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn pairs(query: &str) -> Value {
    let query = query.split('#').next().unwrap_or_default();
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(value)) = (query_text(name), query_text(value)) else { continue };
        found.entry(name).or_default().push(Value::from(value));
    }
    Value::map(found.into_iter().map(|(name, values)| (Key::from(name.as_str()), Value::list(values))))
}
