//! Parses image references.

use std::fmt;

/// Default registry of image names that contain no registry.
const DEFAULT_REGISTRY: &str = "docker.io";
/// Namespace of single-component names on Docker Hub.
const DEFAULT_FOLDER: &str = "library";
/// Longest registry and repository name, in characters.
const MAX_NAME: usize = 255;
/// Longest tag, in characters.
const MAX_TAG: usize = 128;

/// A parsed image reference: `[registry/]repository[:tag][@digest]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageName {
    /// Host and port of the registry; `docker.io` by default.
    pub registry: String,
    /// Path in the registry. Names with a single component on Docker Hub get the prefix `library/`.
    pub repository: String,
    pub tag: Option<String>,
    /// The digest, such as `sha256:...`.
    pub digest: Option<String>,
}

/// An invalid image reference.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("couldn't parse image name \"{name}\": {problem}")]
pub struct InvalidName {
    /// The reference as the user wrote it.
    pub name: String,
    /// What is wrong, and what to write instead.
    pub problem: String,
}

impl ImageName {
    /// Parses an image reference.
    ///
    /// # Errors
    /// If the name is invalid. The error says what is wrong, and what to write instead.
    pub fn parse(name: &str) -> Result<Self, InvalidName> {
        read(name).map_err(|problem| InvalidName { name: name.to_owned(), problem })
    }

    /// Registry and repository, such as `docker.io/library/busybox`. Credentials are matched against it.
    pub fn place(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// Whether the registry is Docker Hub.
    pub fn is_in_default_registry(&self) -> bool {
        self.registry == DEFAULT_REGISTRY
    }

    /// The reference to pull. It gets the tag `latest` if it has neither tag nor digest.
    pub fn to_pull(&self) -> Self {
        let tag = self.tag.clone().or_else(|| self.digest.is_none().then(|| "latest".to_owned()));
        Self { tag, ..self.clone() }
    }
}

impl fmt::Display for ImageName {
    /// Formats the full reference, with its registry.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

fn read(name: &str) -> Result<ImageName, String> {
    if name.is_empty() {
        return Err("it is empty; write the name of an image, for example busybox:1".to_owned());
    }
    if let Some(wrong) = name.chars().find(|c| c.is_whitespace() || c.is_control()) {
        return Err(format!("it contains {wrong:?}; remove it"));
    }
    if let Some((scheme, rest)) = name.split_once("://") {
        return Err(format!("a name has no \"{scheme}://\"; write {rest}"));
    }
    let (rest, digest) = match name.split_once('@') {
        Some((rest, digest)) => (rest, Some(check_digest(digest)?)),
        None => (name, None),
    };
    let (rest, tag) = match rest.rsplit_once(':') {
        // A colon before a slash separates a registry's port.
        Some((rest, tag)) if !tag.contains('/') => (rest, Some(check_tag(tag)?)),
        _ => (rest, None),
    };
    let (registry, path) = match rest.split_once('/') {
        Some((first, path)) if is_registry(first) => (check_registry(first)?, path),
        _ => (DEFAULT_REGISTRY, rest),
    };
    check_repository(path)?;
    let lone = registry == DEFAULT_REGISTRY && !path.contains('/');
    let repository = if lone { format!("{DEFAULT_FOLDER}/{path}") } else { path.to_owned() };
    if registry.len() + 1 + repository.len() > MAX_NAME {
        return Err(format!("it is longer than {MAX_NAME} characters"));
    }
    // Old name of Docker Hub.
    let registry = if registry == "index.docker.io" { DEFAULT_REGISTRY } else { registry };
    Ok(ImageName { registry: registry.to_owned(), repository, tag, digest })
}

/// Whether the first component is a registry host, by the rule that container engines share.
fn is_registry(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.chars().any(|c| c.is_ascii_uppercase())
}

fn check_registry(registry: &str) -> Result<&str, String> {
    let (host, port) = match registry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((ip, port)) if ip.parse::<std::net::Ipv6Addr>().is_ok() => ("ip", port.strip_prefix(':')),
        Some(_) => return Err(format!("\"{registry}\" is not the address of a registry")),
        None => registry.split_once(':').map_or((registry, None), |(host, port)| (host, Some(port))),
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if !host.split('.').all(is_label) {
        return Err(format!("\"{registry}\" is not the host name of a registry"));
    }
    if port.is_some_and(|port| port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit())) {
        return Err(format!("\"{registry}\" has no port number after its colon"));
    }
    Ok(registry)
}

fn check_repository(path: &str) -> Result<(), String> {
    if let Some(upper) = path.chars().find(char::is_ascii_uppercase) {
        let lower = path.to_ascii_lowercase();
        return Err(format!("repository names are lower case, but '{upper}' is not; write {lower}"));
    }
    if path.len() == 64 && path.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err("it looks like an id; write the name of an image".to_owned());
    }
    for part in path.split('/') {
        if !is_component(part) {
            return Err(match part {
                "" => "there is nothing between two slashes or at an end".to_owned(),
                _ => format!(
                    "\"{part}\" is not a valid part of a name: lower case letters and digits, with single '.', one \
                     or two '_' or any '-' between them"
                ),
            });
        }
    }
    Ok(())
}

/// Whether a path component matches `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`.
fn is_component(part: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = part.as_bytes();
    if !bytes.first().is_some_and(|b| is_word(*b)) || !bytes.last().is_some_and(|b| is_word(*b)) {
        return false;
    }
    part.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        .all(|between| matches!(between, "" | "." | "_" | "__") || between.bytes().all(|b| b == b'-'))
}

fn check_tag(tag: &str) -> Result<String, String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let fits = tag.starts_with(is_word) && tag.chars().all(|c| is_word(c) || c == '.' || c == '-');
    match fits && tag.len() <= MAX_TAG {
        true => Ok(tag.to_owned()),
        false => Err(format!(
            "\"{tag}\" is not a tag: at most {MAX_TAG} letters, digits, '_', '.' and '-', and the first is not '.' \
             or '-'"
        )),
    }
}

fn check_digest(digest: &str) -> Result<String, String> {
    let fits = match digest.split_once(':') {
        Some(("sha256", hex)) => hex.len() == 64 && is_lower_hex(hex),
        Some(("sha512", hex)) => hex.len() == 128 && is_lower_hex(hex),
        _ => false,
    };
    fits.then(|| digest.to_owned())
        .ok_or_else(|| format!("\"{digest}\" is not a digest; write sha256: and 64 digits from 0 to f"))
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests;
