//! Rewrites and checks the `Location` header of backends, so that clients stay below the proxy's path. Pure.

/// The `Location` for a client of the proxy at `prefix`.
///
/// As in the stock API server, relative locations and other hosts stay unchanged. `hosts` are the host names of the
/// backend: its own, and the one that the client used.
pub fn rewritten(location: &str, prefix: &str, hosts: [&str; 2]) -> String {
    let (host, path) = split_host(location);
    if host.is_some_and(|host| !hosts.contains(&host)) || !path.starts_with('/') {
        return location.to_owned();
    }
    let rest = path.strip_prefix(prefix);
    let is_below = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']));
    if is_below { path.to_owned() } else { format!("{prefix}{path}") }
}

/// True if the location is on a host other than `hosts`.
pub fn is_other_host(location: &str, hosts: [&str; 2]) -> bool {
    // Browsers accept backslashes and leading blanks.
    let normalized = location.trim().replace('\\', "/");
    let (host, _) = split_host(&normalized);
    host.map_or_else(|| has_scheme(&normalized), |host| !hosts.contains(&host))
}

/// True if the location leaves `prefix` by `..` segments. Clients resolve these before they send a request.
/// `requested_path` is the requested path below `prefix`.
pub fn escapes_prefix(location: &str, prefix: &str, requested_path: &str) -> bool {
    let normalized = location.replace('\\', "/").to_lowercase();
    let normalized = normalized.replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    let (_, path) = split_host(&normalized);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let path = path.strip_prefix(&*prefix.to_lowercase()).unwrap_or(path);
    let is_name = |subresource: &&str| !subresource.is_empty() && *subresource != ".";
    let mut depth = if path.starts_with('/') || path.is_empty() {
        0
    } else {
        requested_path.rsplit_once('/').map_or(0, |(above, _)| above.split('/').filter(is_name).count())
    };
    for subresource in path.split('/').filter(is_name) {
        match (subresource, depth) {
            ("..", 0) => return true,
            ("..", _) => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

/// The host of a URL, if it has one, and everything from the path on.
fn split_host(location: &str) -> (Option<&str>, &str) {
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

/// Whether the location has the scheme `javascript:`, or another one without a host.
fn has_scheme(location: &str) -> bool {
    let scheme = location.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| !scheme.is_empty() && !scheme.contains(['/', '?', '#']))
}

#[cfg(test)]
mod tests {
    //! Tests of locations.

    use super::*;

    const HOSTS: [&str; 2] = ["10.0.0.7:8080", "master:6443"];

    #[test]
    fn redirects_are_rewritten_below_the_proxy_path() {
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
            // Relative locations are unchanged.
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
    fn redirect_detects_paths_above_the_root() {
        for (location, expected) in [
            ("/a/b", false),
            ("a..b/...", false),
            ("/a?x=/../b", false),
            // Relative to /p/x/y/z.
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
            assert_eq!(escapes_prefix(location, "/p", "/x/y/z"), expected, "{location}");
        }
    }

    #[test]
    fn redirect_detects_other_hosts() {
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
            assert_eq!(is_other_host(location, HOSTS), expected, "{location}");
        }
    }
}
