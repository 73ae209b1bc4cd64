//! Values of a Compose file with a syntax of their own: ports, sizes, durations, command lines and names.

use std::time::Duration;

use super::model::{Port, Syntax};
use crate::cli::flags;

/// A port of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedPort {
    /// Port in the container.
    pub target: u16,
    /// Port of the host; `None` if Compose would choose one, or if the port is not published.
    pub host: Option<u16>,
    /// Address of the host; empty for all.
    pub host_ip: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: &'static str,
    /// Name of the port; may be empty.
    pub name: String,
}

/// Parses an entry of `ports`. A range results in several ports.
///
/// # Errors
/// A description of the mistake.
pub fn ports(entry: &Syntax<Port>) -> Result<Vec<PublishedPort>, String> {
    let (host_ip, host, target, kind, name) = match entry {
        Syntax::Short(text) => {
            let (text, kind) = text.split_once('/').unwrap_or((text, "tcp"));
            let (rest, target) = match text.rsplit_once(':') {
                Some((rest, target)) => (Some(rest), target),
                None => (None, text),
            };
            let (ip, host) = match rest.map(|rest| rest.rsplit_once(':').unwrap_or(("", rest))) {
                Some((ip, host)) => (ip.trim_start_matches('[').trim_end_matches(']'), host),
                None => ("", ""),
            };
            (ip.to_owned(), host.to_owned(), target.to_owned(), kind.to_owned(), String::new())
        }
        Syntax::Long(port) => {
            let text = |field: &Option<super::model::Text>| field.clone().unwrap_or_default().0;
            let kind = if port.protocol.is_some() { text(&port.protocol) } else { "tcp".to_owned() };
            (text(&port.host_ip), text(&port.published), text(&port.target), kind, text(&port.name))
        }
    };
    let protocol = protocol(&kind)?;
    let targets = range(&target)?;
    let hosts = if host.is_empty() { None } else { Some(range(&host)?) };
    let ports = targets.clone();
    let port = |(at, target): (usize, u16), host: Option<u16>| PublishedPort {
        target,
        host,
        host_ip: host_ip.clone(),
        protocol,
        // A name belongs to one port.
        name: if at == 0 { name.clone() } else { String::new() },
    };
    match hosts {
        None => Ok(ports.enumerate().map(|one| port(one, None)).collect()),
        Some(hosts) if hosts.len() == targets.len() => {
            Ok(ports.enumerate().zip(hosts).map(|(one, host)| port(one, Some(host))).collect())
        }
        // Compose takes the first free port of the range; the first one is the only choice that is known.
        Some(mut hosts) if targets.len() == 1 => {
            Ok(ports.enumerate().map(|one| port(one, hosts.next())).collect())
        }
        Some(_) => Err("the ranges of the host and of the container have different lengths".to_owned()),
    }
}

/// Parses an entry of `expose`, such as `3000` or `53/udp`.
///
/// # Errors
/// A description of the mistake.
pub fn exposed(text: &str) -> Result<Vec<PublishedPort>, String> {
    let (range_text, kind) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = protocol(kind)?;
    let port =
        |target| PublishedPort { target, host: None, host_ip: String::new(), protocol, name: String::new() };
    Ok(range(range_text)?.map(port).collect())
}

fn protocol(text: &str) -> Result<&'static str, String> {
    let known = ["TCP", "UDP", "SCTP"].into_iter().find(|known| known.eq_ignore_ascii_case(text));
    known.ok_or_else(|| format!("`{text}` is not a protocol of ports"))
}

fn range(text: &str) -> Result<std::ops::RangeInclusive<u16>, String> {
    let port = |text: &str| {
        let port = text.parse::<u16>().ok().filter(|port| *port > 0);
        port.ok_or_else(|| format!("`{text}` is not a port from 1 to 65535"))
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    if first > last {
        return Err(format!("`{text}` is not a range: its end is before its start"));
    }
    Ok(first..=last)
}

/// Parses a size, such as `64m` or `1.5gb`, to a quantity. Units are powers of 1024.
///
/// # Errors
/// A description of the mistake.
pub fn size(text: &str) -> Result<String, String> {
    let wrong = || format!("`{text}` is not a size; write one such as 64m or 1gb");
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let (number, unit) = lower.split_at(digits);
    let shift = match unit.trim() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * (1_u64 << shift) as f64;
    if !(0.0..9e15).contains(&bytes) {
        return Err(wrong());
    }
    let bytes = bytes as u64;
    let units = [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
    let fits = units.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    Ok(fits.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift)))
}

/// Parses a number of CPUs, such as `0.5`, to a quantity.
///
/// # Errors
/// A description of the mistake.
pub fn cpus(text: &str) -> Result<String, String> {
    let number = text.trim().parse::<f64>().ok().filter(|number| (0.0..100_000.0).contains(number));
    let number = number.ok_or_else(|| format!("`{text}` is not a number of CPUs"))?;
    let milli = (number * 1000.0).round() as u64;
    Ok(if milli.is_multiple_of(1000) { (milli / 1000).to_string() } else { format!("{milli}m") })
}

/// Parses a duration to whole seconds, rounded up. A number without a unit counts microseconds, as in Compose.
///
/// # Errors
/// A description of the mistake.
pub fn seconds(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    let with_unit =
        if text.ends_with(|c: char| c.is_ascii_digit()) { format!("{text}us") } else { text.to_owned() };
    let (days, rest) = match with_unit.split_once('d') {
        Some((days, rest)) if days.chars().all(|c| c.is_ascii_digit()) => (days.parse().unwrap_or(0), rest),
        _ => (0_u64, with_unit.as_str()),
    };
    let rest = match rest {
        "" => Duration::ZERO,
        rest => flags::duration(rest)
            .map_err(|_| format!("`{text}` is not a duration; write one such as 1m30s"))?,
    };
    Ok(days * 86_400 + rest.as_secs() + u64::from(rest.subsec_nanos() > 0))
}

/// Splits a command line into words as Compose does: with quotes and backslashes, without a shell.
///
/// # Errors
/// If a quote is not closed.
pub fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(_), '\\') => match rest.next() {
                Some(c @ ('"' | '\\' | '$' | '`')) => word.get_or_insert_default().push(c),
                Some(c) => word.get_or_insert_default().extend(['\\', c]),
                None => {}
            },
            (None, '\\') => word.get_or_insert_default().extend(rest.next()),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(format!("`{line}` has a quote that is not closed"));
    }
    words.extend(word);
    Ok(words)
}

/// A valid name of objects, containers and volumes from a name of Compose: a DNS label.
pub fn label(name: &str) -> String {
    let mapped: String =
        name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let cut: String = mapped.trim_matches('-').chars().take(63).collect();
    let cut = cut.trim_end_matches('-');
    if cut.is_empty() { "x".to_owned() } else { cut.to_owned() }
}

/// Whether a text is a valid host name: DNS labels with dots.
pub fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Escapes what the kubelet would expand in environment variables and commands: `$(NAME)` and `$$`.
pub fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        out.push(c);
        if c == '$' && matches!(rest.peek(), Some('$' | '(')) {
            out.push('$');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    //! Tests of values in the syntax of Compose.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::{cpus, exposed, is_host_name, label, literal, ports, seconds, size, words};
    use crate::cli::import::model::Syntax;

    #[test]
    fn short_ports_of_the_specification_are_parsed() {
        for (text, expected) in [
            ("3000", "*:*:3000/TCP"),
            ("3000-3001", "*:*:3000/TCP *:*:3001/TCP"),
            ("8000:8000", "*:8000:8000/TCP"),
            ("9090-9091:8080-8081", "*:9090:8080/TCP *:9091:8081/TCP"),
            ("49100:22", "*:49100:22/TCP"),
            ("8000-9000:80", "*:8000:80/TCP"),
            ("127.0.0.1:8001:8001", "127.0.0.1:8001:8001/TCP"),
            ("127.0.0.1::5000", "127.0.0.1:*:5000/TCP"),
            ("127.0.0.1:5000-5001:6000-6001", "127.0.0.1:5000:6000/TCP 127.0.0.1:5001:6001/TCP"),
            ("6060:6060/udp", "*:6060:6060/UDP"),
            ("[::1]:6001:6001", "::1:6001:6001/TCP"),
        ] {
            let found = ports(&Syntax::Short(text.to_owned())).unwrap();
            let shown = found.iter().map(|port| {
                let ip = if port.host_ip.is_empty() { "*" } else { &port.host_ip };
                let host = port.host.map_or("*".to_owned(), |host| host.to_string());
                format!("{ip}:{host}:{}/{}", port.target, port.protocol)
            });
            assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{text}");
        }
        for text in ["", "x", "0", "70000:1", "1-2:1-3", "80/http", "3-1"] {
            assert!(ports(&Syntax::Short(text.to_owned())).is_err(), "{text}");
        }
        assert_eq!(exposed("53/udp").unwrap()[0].protocol, "UDP");
    }

    #[test]
    fn sizes_cpus_and_durations_are_parsed() {
        for (text, expected) in [
            ("2b", "2"),
            ("1024kb", "1Mi"),
            ("2048k", "2Mi"),
            ("300m", "300Mi"),
            ("1gb", "1Gi"),
            ("1.5g", "1536Mi"),
            ("1000000", "1000000"),
            ("0", "0"),
        ] {
            assert_eq!(size(text).unwrap(), expected, "{text}");
        }
        assert!(size("1x").is_err() && size("").is_err() && size("-1m").is_err());
        for (text, expected) in [("0.50", "500m"), ("2", "2"), ("1.25", "1250m"), ("0.001", "1m")] {
            assert_eq!(cpus(text).unwrap(), expected, "{text}");
        }
        for (text, expected) in [
            ("10ms", 1),
            ("40s", 40),
            ("1m30s", 90),
            ("1h5m30s20ms", 3931),
            ("1d", 86_400),
            ("0", 0),
            ("5000000", 5),
        ] {
            assert_eq!(seconds(text).unwrap(), expected, "{text}");
        }
        assert!(seconds("soon").is_err());
    }

    #[test]
    fn command_lines_are_split_without_a_shell() {
        for (line, expected) in [
            ("bundle exec thin -p 3000", &["bundle", "exec", "thin", "-p", "3000"][..]),
            ("sh -c 'a \"b\" $c'", &["sh", "-c", "a \"b\" $c"]),
            (r#"a "b \"c\" \x" d\ e ''"#, &["a", r#"b "c" \x"#, "d e", ""]),
            ("  ", &[]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
        assert!(words("a 'b").is_err());
    }

    #[test]
    fn names_become_labels() {
        for (name, expected) in [("web", "web"), ("My_App.1", "my-app-1"), ("_", "x"), ("-a-", "a")] {
            assert_eq!(label(name), expected, "{name}");
        }
        assert!(
            is_host_name("db") && is_host_name("db.example") && !is_host_name("my_db") && !is_host_name("")
        );
    }

    #[test]
    fn texts_stay_as_they_are_after_the_expansion_of_the_kubelet() {
        for text in ["$(A)", "$$", "$$(A)", "$A ${B}", "a$", "$$$"] {
            let escaped = literal(text);
            assert_eq!(api::expand::expand(&escaped, |_| Some("expanded")), text, "{text}");
        }
    }
}
