//! Flags that join a node to a cluster, and the parser of join strings.

use command::{InvalidValue, Values as _};

use super::super::args::RunFlags;
use super::{Flags, path, some};
use crate::options::{Bootstrap, Cluster, Join, Options};

/// The expected format of a join string.
const FORMAT: &str = "write https://HOST:PORT#sha256:HASH, as `master join-string` prints it (several servers: https://ONE:PORT,https://OTHER:PORT#sha256:HASH)";
/// Number of hexadecimal digits of a SHA-256 hash.
const HASH_DIGITS: usize = 64;

impl Flags<'_> {
    /// Applies the cluster flags. `serving` is `serverTLSBootstrap` of the configuration file.
    pub(super) fn join(&mut self, flags: &RunFlags, serving: Option<bool>, options: &mut Options) {
        options.cert_dir = options.root_dir.join("pki");
        self.set("--cert-dir", &flags.cert_dir, path, &mut options.cert_dir);
        let mut kubeconfig = options.root_dir.join("kubeconfig");
        self.set("--kubeconfig", &flags.kubeconfig, path, &mut kubeconfig);
        let mut by_kubeconfig = None;
        self.set("--bootstrap-kubeconfig", &flags.bootstrap_kubeconfig, some(path), &mut by_kubeconfig);
        let mut by_line = None;
        self.set("--bootstrap", &flags.bootstrap, some(join), &mut by_line);
        let is_insecure = flags.bootstrap_insecure_trust_on_first_use;
        if by_line.as_ref().is_some_and(|join| join.pin.is_none()) && !is_insecure {
            self.mistakes.push(format!(
                "--bootstrap: without #sha256:HASH the cluster's CA cannot be verified; {FORMAT}, or add \
                 --bootstrap-insecure-trust-on-first-use"
            ));
        }
        if is_insecure && flags.bootstrap.is_none() {
            self.mistakes.push("--bootstrap-insecure-trust-on-first-use: requires --bootstrap".to_owned());
        }
        if flags.bootstrap.is_some() && flags.bootstrap_kubeconfig.is_some() {
            self.mistakes.push("--bootstrap-kubeconfig: cannot be combined with --bootstrap".to_owned());
        }
        let is_line = by_line.is_some();
        let bootstrap = by_line.map(Bootstrap::Join).or(by_kubeconfig.map(Bootstrap::Kubeconfig));
        if bootstrap.is_some() || flags.kubeconfig.is_some() {
            // A stock cluster does not sign serving certificates without approval, so the kubelet requests one only if
            // configured.
            let serving = serving.unwrap_or(is_line);
            options.cluster = Some(Cluster { bootstrap, kubeconfig, serving });
        }
    }
}

/// Parses a join string. Several servers before the `#` are separated by commas.
pub(super) fn join(text: &str) -> Result<Join, InvalidValue> {
    let (servers, pin) = match text.trim().split_once('#') {
        Some((servers, pin)) => (servers, Some(hash(pin)?)),
        None => (text.trim(), None),
    };
    let servers: Result<Vec<String>, InvalidValue> = servers.split(',').map(server).collect();
    Ok(Join { servers: servers?, pin })
}

fn hash(text: &str) -> Result<String, InvalidValue> {
    let digits =
        text.strip_prefix("sha256:").ok_or_else(|| format!("has a pin that is not sha256; {FORMAT}"))?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_hex && digits.len() == HASH_DIGITS {
        Ok(digits.to_lowercase())
    } else {
        Err(format!("has a hash that is not {HASH_DIGITS} hex digits; a part of it may be missing; {FORMAT}"))
    }
}

fn server(text: &str) -> Result<String, InvalidValue> {
    let text = text.trim().trim_end_matches('/');
    let uri = text.parse::<http::Uri>().ok().filter(|uri| uri.host().is_some_and(|host| !host.is_empty()));
    let uri = uri.ok_or_else(|| format!("is not a URL with a host; {FORMAT}"))?;
    match (uri.scheme_str(), uri.path()) {
        (Some("https"), "" | "/") if uri.query().is_none() => Ok(text.to_owned()),
        (Some("https"), _) => Err(format!("has a path; {FORMAT}")),
        _ => Err(format!("is not https; {FORMAT}")),
    }
}

#[cfg(test)]
mod tests;
