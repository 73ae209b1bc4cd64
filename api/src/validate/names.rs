//! Validates names: DNS labels, label keys and values, data keys, port names and paths.

use crate::field_error::{ErrorType, FieldErrors};
use crate::path::Path;
use crate::schema::nearest;

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;
const DATA_KEY_MAX: usize = 253;
const PORT_NAME_MAX: usize = 15;

/// True for a DNS label (RFC 1123): at most 63 lower-case letters, digits and `-`.
pub(crate) fn is_dns_label(name: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty()
        && name.len() <= LABEL_MAX
        && name.bytes().all(inside)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// True for a DNS subdomain (RFC 1123): labels joined by `.`, at most 253 characters. The length of a single label is
/// not limited.
pub fn is_dns_subdomain(name: &str) -> bool {
    is_subdomain(name, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Whether the name is a DNS search path: a [DNS subdomain](is_dns_subdomain) that may contain `_`.
pub(crate) fn is_dns_search(name: &str) -> bool {
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

/// True for a label key: `name` or `prefix/name`.
pub(crate) fn is_qualified_name(name: &str) -> bool {
    match name.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_label_text(name),
        None => is_label_text(name),
    }
}

/// True for a label value; it may be empty.
pub(crate) fn is_label_value(value: &str) -> bool {
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

/// True for a key of a ConfigMap or Secret, which must be a valid file name.
pub(crate) fn is_data_key(key: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !key.is_empty()
        && key.len() <= DATA_KEY_MAX
        && key.bytes().all(inside)
        && key != "."
        && !key.starts_with("..")
}

/// True for the name of an environment variable: printable ASCII except `=`.
pub(crate) fn is_env_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
}

/// True for a port name: at most 15 lower-case letters, digits and single `-`, with at least one letter.
pub(crate) fn is_port_name(name: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=PORT_NAME_MAX).contains(&name.len())
        && name.bytes().all(inside)
        && name.bytes().any(|byte| byte.is_ascii_lowercase())
        && !name.contains("--")
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// True for the name of an HTTP header.
pub(crate) fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// True if a path contains `..`.
pub(super) fn has_parent_element(path: &str) -> bool {
    path.split('/').any(|element| element == "..")
}

/// Reports a name that is not a DNS label.
pub(super) fn dns_label(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if !is_dns_label(name) {
        let what = format!(
            "`{}` is not a valid name: only lower case letters, digits and `-`, at most 63 of them",
            shown(name)
        );
        errors.add_typed(path, ErrorType::DnsLabel, what, rename(name, LABEL_MAX, false));
    }
}

/// Reports a name that is not a DNS subdomain.
pub(super) fn dns_subdomain(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if !is_dns_subdomain(name) {
        let what = format!(
            "`{}` is not a valid name: only lower case letters, digits, `-` and `.`, at most 253 of them",
            shown(name)
        );
        errors.add_typed(path, ErrorType::DnsSubdomain, what, rename(name, SUBDOMAIN_MAX, true));
    }
}

/// Reports an invalid key of a label or annotation.
pub(super) fn qualified_name(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if !is_qualified_name(name) {
        errors.add(
            path,
            format!("`{}` is not a valid key: letters, digits, `-`, `_` and `.`, at most 63, optionally with a prefix such as `example.com/`", shown(name)),
            "begin and end it with a letter or digit, and use no other characters",
        );
    }
}

/// Reports an invalid label value.
pub(super) fn label_value(value: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if !is_label_value(value) {
        errors.add(
            path,
            format!(
                "`{}` is not a valid label value: letters, digits, `-`, `_` and `.`, at most 63",
                shown(value)
            ),
            "shorten it, or put it into an annotation",
        );
    }
}

/// Reports an absolute path, and a path with `..`.
pub(super) fn local_path(local: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if local.starts_with('/') {
        errors.add(path, format!("`{}` must be a relative path", shown(local)), "remove the `/` in front");
    }
    no_parent_element(local, path, errors);
}

/// Reports the same errors as [`local_path`], and also file names that begin with `..`, which volumes reserve.
pub(super) fn local_file(local: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    local_path(local, path, errors);
    if local.starts_with("..") && !has_parent_element(local) {
        errors.add(path, format!("`{}` must not begin with `..`", shown(local)), "name it differently");
    }
}

/// Reports a path with `..`.
pub(super) fn no_parent_element(local: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if has_parent_element(local) {
        errors.add(path, format!("`{}` must not contain `..`", shown(local)), "write the path out");
    }
}

/// The message for a missing required field.
pub(crate) const REQUIRED: &str = "is required";

/// Reports a missing required field. `remedy` says what to add.
pub(super) fn required(path: &Path<'_>, remedy: &str, errors: &mut FieldErrors) {
    errors.add_typed(path, ErrorType::Required, REQUIRED, remedy);
}

/// Reports a value that is not one of the known values.
pub(super) fn one_of(value: &str, known: &[&str], path: &Path<'_>, errors: &mut FieldErrors) {
    if known.contains(&value) {
        return;
    }
    let remedy = match nearest(value, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.len() == 1 => format!("write `{}`", known[0]),
        None => "write one of these".to_owned(),
    };
    let named: Vec<&str> = known.iter().copied().filter(|known| !known.is_empty()).collect();
    let what = format!("`{}` is not one of {}", shown(value), named.join(", "));
    let known = named.into_iter().map(str::to_owned).collect();
    errors.add_typed(path, ErrorType::NoneOf(known), what, remedy);
}

/// Reports a number outside of a range.
pub(super) fn within(number: i64, least: i64, most: i64, path: &Path<'_>, errors: &mut FieldErrors) {
    if !(least..=most).contains(&number) {
        errors.add(
            path,
            format!("{number} is out of range"),
            format!("write a number from {least} to {most}"),
        );
    }
}

/// Reports a negative number.
pub(super) fn not_negative(number: i64, path: &Path<'_>, errors: &mut FieldErrors) {
    if number < 0 {
        errors.add(path, format!("{number} is negative"), "write 0 or more");
    }
}

/// Reports an invalid port number.
pub(super) fn port_number(number: i32, path: &Path<'_>, errors: &mut FieldErrors) {
    within(i64::from(number), 1, 65535, path, errors);
}

/// Reports a text that is not an IP address.
pub(super) fn ip_address(text: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if text.parse::<std::net::IpAddr>().is_err() {
        errors.add(
            path,
            format!("`{}` is not an IP address", shown(text)),
            "write it like 10.0.0.1 or fd00::1",
        );
    }
}

/// Truncates a text for messages.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(LABEL_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The remedy for an invalid name: the most similar valid name.
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
