//! Where an answer leads to, as a client of the master gets there: what the other side says of itself stands below the path
//! by which it is reached. Pure.

/// What `Location` says, for a client that asked for `source` below `prefix`.
///
/// As the stock server does it: another host's is left alone, and so is what is relative; `hosts` are the names by which
/// whoever answered knows itself, its own and the one that the client used.
pub fn rewritten(location: &str, prefix: &str, hosts: [&str; 2]) -> String {
    let (host, path) = taken_apart(location);
    if host.is_some_and(|host| !hosts.contains(&host)) || !path.starts_with('/') {
        return location.to_owned();
    }
    let rest = path.strip_prefix(prefix);
    let is_below = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']));
    if is_below { path.to_owned() } else { format!("{prefix}{path}") }
}

/// True when it leads to another host than those.
pub fn is_elsewhere(location: &str, hosts: [&str; 2]) -> bool {
    // Browsers take either slash, and no blanks before it, for what begins a host.
    let plain = location.trim().replace('\\', "/");
    let (host, _) = taken_apart(&plain);
    host.map_or_else(|| has_scheme(&plain), |host| !hosts.contains(&host))
}

/// True when it climbs out of the path by which the other side is reached: clients take such parts of a path away before they ask.
/// `asked` is the path that was asked for, below that one.
pub fn climbs(location: &str, prefix: &str, asked: &str) -> bool {
    let plain = location.replace('\\', "/").to_lowercase();
    let plain = plain.replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    let (_, path) = taken_apart(&plain);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let path = path.strip_prefix(&*prefix.to_lowercase()).unwrap_or(path);
    let is_name = |part: &&str| !part.is_empty() && *part != ".";
    let mut depth = if path.starts_with('/') || path.is_empty() {
        0
    } else {
        asked.rsplit_once('/').map_or(0, |(above, _)| above.split('/').filter(is_name).count())
    };
    for part in path.split('/').filter(is_name) {
        match (part, depth) {
            ("..", 0) => return true,
            ("..", _) => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

/// The host of a URL, where it says one, and all from the path on.
fn taken_apart(location: &str) -> (Option<&str>, &str) {
    let after = match location.strip_prefix("//") {
        Some(after) => after,
        None => match location.split_once("://") {
            Some((scheme, after)) if !scheme.contains(['/', '?', '#']) => after,
            _ => return (None, location),
        },
    };
    let end = after.find(['/', '?', '#']).unwrap_or(after.len());
    (Some(&after[..end]), &after[end..])
}

/// `javascript:` and the like.
fn has_scheme(location: &str) -> bool {
    let scheme = location.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| !scheme.is_empty() && !scheme.contains(['/', '?', '#']))
}

#[cfg(test)]
mod tests {
    //! What servers answer, and where a client is led.

    use super::*;

    const HOSTS: [&str; 2] = ["10.0.0.7:8080", "master:6443"];

    #[test]
    fn a_client_stays_below_the_path_by_which_it_came() {
        for (location, expected) in [
            ("/login", "/p/login"),
            ("/", "/p/"),
            ("/login?next=/a#b", "/p/login?next=/a#b"),
            ("http://10.0.0.7:8080/login?x", "/p/login?x"),
            ("https://master:6443/login", "/p/login"),
            ("//10.0.0.7:8080/a", "/p/a"),
            ("/p/login", "/p/login"),
            ("/p?x", "/p?x"),
            ("/private", "/p/private"),
            // What is relative is so to the client, too.
            ("login", "login"),
            ("?x=http://a/", "?x=http://a/"),
            ("http://10.0.0.7:8080", "http://10.0.0.7:8080"),
            ("https://login.example.com/a", "https://login.example.com/a"),
            ("http://10.0.0.7:8081/a", "http://10.0.0.7:8081/a"),
        ] {
            assert_eq!(rewritten(location, "/p", HOSTS), expected, "{location}");
        }
    }

    #[test]
    fn what_climbs_is_seen() {
        for (location, expected) in [
            ("/a/b", false),
            ("a..b/...", false),
            ("/a?x=/../b", false),
            // Below /p/x/y, where the client has asked for /p/x/y/z.
            ("../a", false),
            ("../../a", false),
            ("../../../a", true),
            ("/p/a/../b", false),
            ("/p/../b", true),
            ("/../../x", true),
            ("/p/%2e%2E/x", true),
            ("/a\\..\\..\\b", true),
            ("http://10.0.0.7:8080/..%2fx", true),
        ] {
            assert_eq!(climbs(location, "/p", "/x/y/z"), expected, "{location}");
        }
    }

    #[test]
    fn what_leads_elsewhere_is_seen() {
        for (location, expected) in [
            ("/login", false),
            ("login", false),
            ("a/b?x=http://c", false),
            ("http://10.0.0.7:8080/a", false),
            ("http://evil/a", true),
            ("//evil", true),
            ("/\\evil", true),
            (" \\\\evil", true),
            ("HTTP:evil", true),
            ("javascript:alert(1)", true),
            ("http://master:6443@evil/", true),
        ] {
            assert_eq!(is_elsewhere(location, HOSTS), expected, "{location}");
        }
    }
}
