//! What may be called what: DNS labels, label keys and values, keys of data, ports, paths.

use crate::fault::Faults;
use crate::path::Path;
use crate::schema::nearest;

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;
const DATA_KEY_MAX: usize = 253;
const PORT_NAME_MAX: usize = 15;

/// A name of at most 63 lower case letters, digits and `-`.
pub(super) fn is_dns_label(name: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty()
        && name.len() <= LABEL_MAX
        && name.bytes().all(inside)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Names like DNS labels, apart from their length, joined by `.`; at most 253 characters.
pub fn is_dns_subdomain(name: &str) -> bool {
    is_subdomain(name, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// As a subdomain, with `_` as well: search paths of resolvers may hold it.
pub(super) fn is_dns_search(name: &str) -> bool {
    is_subdomain(name, |byte| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
    })
}

fn is_subdomain(name: &str, inside: impl Fn(u8) -> bool) -> bool {
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(&inside) && !part.starts_with('-') && !part.ends_with('-')
    };
    name.len() <= SUBDOMAIN_MAX && name.split('.').all(part)
}

/// The key of a label: `name` or `prefix/name`.
pub(super) fn is_qualified_name(name: &str) -> bool {
    match name.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_label_text(name),
        None => is_label_text(name),
    }
}

/// The value of a label: as a label's key without a prefix, or empty.
pub(super) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_label_text(value)
}

fn is_label_text(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= LABEL_MAX
        && text.bytes().all(inside)
        && ends(text.bytes().next())
        && ends(text.bytes().last())
}

/// A key of a ConfigMap or a Secret: it becomes a file name.
pub(super) fn is_data_key(key: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !key.is_empty()
        && key.len() <= DATA_KEY_MAX
        && key.bytes().all(inside)
        && key != "."
        && !key.starts_with("..")
}

/// The name of an environment variable: any printable ASCII but `=`.
pub(super) fn is_env_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
}

/// The name of a port: at most 15 lower case letters, digits and single `-`, at least one letter.
pub(super) fn is_port_name(name: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=PORT_NAME_MAX).contains(&name.len())
        && name.bytes().all(inside)
        && name.bytes().any(|byte| byte.is_ascii_lowercase())
        && !name.contains("--")
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// The name of an HTTP header.
pub(super) fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// True when one of the elements of a path is `..`.
pub(super) fn steps_back(path: &str) -> bool {
    path.split('/').any(|element| element == "..")
}

/// Notes a name that is no DNS label, with one that is.
pub(super) fn dns_label(name: &str, path: &Path<'_>, faults: &mut Faults) {
    if !is_dns_label(name) {
        let what = format!(
            "`{}` is no name here: only lower case letters, digits and `-`, at most 63 of them",
            shown(name)
        );
        faults.add(path, what, rename(name, LABEL_MAX, false));
    }
}

/// Notes a name that is no DNS subdomain, with one that is.
pub(super) fn dns_subdomain(name: &str, path: &Path<'_>, faults: &mut Faults) {
    if !is_dns_subdomain(name) {
        let what = format!(
            "`{}` is no name here: only lower case letters, digits, `-` and `.`, at most 253 of them",
            shown(name)
        );
        faults.add(path, what, rename(name, SUBDOMAIN_MAX, true));
    }
}

/// Notes a key of a label or of an annotation that is none.
pub(super) fn qualified_name(name: &str, path: &Path<'_>, faults: &mut Faults) {
    if !is_qualified_name(name) {
        faults.add(
            path,
            format!("`{}` is no key: letters, digits, `-`, `_` and `.`, at most 63, perhaps with `example.com/` in front", shown(name)),
            "begin and end it with a letter or digit, and use no other characters",
        );
    }
}

/// Notes a value that no label may have.
pub(super) fn label_value(value: &str, path: &Path<'_>, faults: &mut Faults) {
    if !is_label_value(value) {
        faults.add(
            path,
            format!(
                "`{}` is no value of a label: letters, digits, `-`, `_` and `.`, at most 63",
                shown(value)
            ),
            "shorten it, or put it into an annotation",
        );
    }
}

/// Notes a path that leaves the directory it is meant for.
pub(super) fn local_path(local: &str, path: &Path<'_>, faults: &mut Faults) {
    if local.starts_with('/') {
        faults.add(path, format!("`{}` must be a relative path", shown(local)), "remove the `/` in front");
    }
    no_steps_back(local, path, faults);
}

/// As [`local_path`], and without the names that volumes keep for themselves.
pub(super) fn local_file(local: &str, path: &Path<'_>, faults: &mut Faults) {
    local_path(local, path, faults);
    if local.starts_with("..") && !steps_back(local) {
        faults.add(path, format!("`{}` must not begin with `..`", shown(local)), "name it differently");
    }
}

/// Notes a path with a `..` in it.
pub(super) fn no_steps_back(local: &str, path: &Path<'_>, faults: &mut Faults) {
    if steps_back(local) {
        faults.add(path, format!("`{}` must not hold `..`", shown(local)), "write the path out");
    }
}

/// What is said of a field that must be there and is not.
pub(crate) const REQUIRED: &str = "is required";

/// Notes a field that must be there; `remedy` says what to add.
pub(super) fn required(path: &Path<'_>, remedy: &str, faults: &mut Faults) {
    faults.add(path, REQUIRED, remedy);
}

/// Notes a text that is none of the ones a field knows.
pub(super) fn one_of(value: &str, known: &[&str], path: &Path<'_>, faults: &mut Faults) {
    if known.contains(&value) {
        return;
    }
    let remedy = match nearest(value, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.len() == 1 => format!("write `{}`", known[0]),
        None => "write one of these".to_owned(),
    };
    let named: Vec<&str> = known.iter().copied().filter(|known| !known.is_empty()).collect();
    faults.add(path, format!("`{}` is none of {}", shown(value), named.join(", ")), remedy);
}

/// Notes a number outside of `least` to `most`.
pub(super) fn within(number: i64, least: i64, most: i64, path: &Path<'_>, faults: &mut Faults) {
    if !(least..=most).contains(&number) {
        faults.add(
            path,
            format!("{number} is out of range"),
            format!("write a number from {least} to {most}"),
        );
    }
}

/// Notes a negative number.
pub(super) fn not_negative(number: i64, path: &Path<'_>, faults: &mut Faults) {
    if number < 0 {
        faults.add(path, format!("{number} is negative"), "write 0 or more");
    }
}

/// Notes a port number that is none.
pub(super) fn port_number(number: i32, path: &Path<'_>, faults: &mut Faults) {
    within(i64::from(number), 1, 65535, path, faults);
}

/// Notes a text that is no IP address.
pub(super) fn ip_address(text: &str, path: &Path<'_>, faults: &mut Faults) {
    if text.parse::<std::net::IpAddr>().is_err() {
        faults.add(path, format!("`{}` is no IP address", shown(text)), "write it like 10.0.0.1 or fd00::1");
    }
}

/// A text, short enough for a message.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(LABEL_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The remedy for a name: the nearest one that is allowed.
fn rename(name: &str, longest: usize, dots: bool) -> String {
    let folded: String = (name.chars().flat_map(char::to_lowercase))
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() || (dots && c == '.') { c } else { '-' })
        .take(longest)
        .collect();
    let parts: Vec<&str> =
        folded.split('.').map(|part| part.trim_matches('-')).filter(|part| !part.is_empty()).collect();
    match parts.join(".").as_str() {
        "" => "write a name".to_owned(),
        near => format!("write `{near}`"),
    }
}
