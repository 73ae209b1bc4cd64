//! The flags by which a machine becomes a node, and the line that leads to a cluster.

use command::{Values as _, Wanted};

use super::super::args::RunFlags;
use super::{Flags, path, some};
use crate::options::{Bootstrap, Cluster, Join, Options};

/// What a line looks like.
const LOOK: &str = "write https://HOST:PORT#sha256:HASH, as `master join-string` prints it (several servers: https://ONE:PORT,https://OTHER:PORT#sha256:HASH)";
/// Digits of a SHA-256.
const HASH_DIGITS: usize = 64;

impl Flags<'_> {
    /// Everything about the cluster; `serving` is what the file says of the serving certificate.
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
                "--bootstrap: without #sha256:HASH whoever answers could be the cluster; {LOOK}, or give \
                 --bootstrap-insecure-trust-on-first-use as well"
            ));
        }
        if is_insecure && flags.bootstrap.is_none() {
            self.mistakes.push("--bootstrap-insecure-trust-on-first-use: goes with --bootstrap".to_owned());
        }
        if flags.bootstrap.is_some() && flags.bootstrap_kubeconfig.is_some() {
            self.mistakes
                .push("--bootstrap-kubeconfig: leave it out, or --bootstrap: each is a way in".to_owned());
        }
        let is_line = by_line.is_some();
        let bootstrap = by_line.map(Bootstrap::Join).or(by_kubeconfig.map(Bootstrap::Kubeconfig));
        if bootstrap.is_some() || flags.kubeconfig.is_some() {
            // A stock cluster signs no serving certificate before somebody approves it, so that there it is asked for on request.
            let serving = serving.unwrap_or(is_line);
            options.cluster = Some(Cluster { bootstrap, kubeconfig, serving });
        }
    }
}

/// Reads a join string; several servers stand before the `#` with commas between them.
pub(super) fn join(text: &str) -> Result<Join, Wanted> {
    let (servers, pin) = match text.trim().split_once('#') {
        Some((servers, pin)) => (servers, Some(hash(pin)?)),
        None => (text.trim(), None),
    };
    let servers: Result<Vec<String>, Wanted> = servers.split(',').map(server).collect();
    Ok(Join { servers: servers?, pin })
}

fn hash(text: &str) -> Result<String, Wanted> {
    let digits =
        text.strip_prefix("sha256:").ok_or_else(|| format!("pins something else than sha256; {LOOK}"))?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_hex && digits.len() == HASH_DIGITS {
        Ok(digits.to_lowercase())
    } else {
        Err(format!(
            "has a hash that is not {HASH_DIGITS} digits of hex, a part of it may be missing; {LOOK}"
        ))
    }
}

fn server(text: &str) -> Result<String, Wanted> {
    let text = text.trim().trim_end_matches('/');
    let uri = text.parse::<http::Uri>().ok().filter(|uri| uri.host().is_some_and(|host| !host.is_empty()));
    let uri = uri.ok_or_else(|| format!("leads nowhere; {LOOK}"))?;
    match (uri.scheme_str(), uri.path()) {
        (Some("https"), "" | "/") if uri.query().is_none() => Ok(text.to_owned()),
        (Some("https"), _) => Err(format!("has a path; {LOOK}")),
        _ => Err(format!("is not https; {LOOK}")),
    }
}

#[cfg(test)]
mod tests;
