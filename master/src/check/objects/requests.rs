//! Requests for certificates that nobody decides on, or that nobody signs. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;

use super::field::{condition, text};
use super::{PATIENCE, World};
use crate::check::finding::{Finding, Subject};
use crate::controllers::Object;
use crate::pki::{Request, node};

/// What policies decide by themselves they decide within seconds; what is undecided for longer waits for a person, and a machine
/// with it.
const UNDECIDED: SignedDuration = SignedDuration::from_secs(30);

/// What is wrong with requests.
pub fn findings(world: &World) -> Vec<Finding> {
    let of = |request| of_request(request, world.since(&request.created));
    world.of("certificatesigningrequests").iter().filter_map(of).collect()
}

fn of_request(request: &Object, age: SignedDuration) -> Option<Finding> {
    let subject = Subject::of("CertificateSigningRequest", request);
    let failed = condition(request, "Failed");
    let (name, signer) = (&request.name, text(request, "/spec/signerName"));
    let is_approved = condition(request, "Approved").holds();
    let is_late = age > if failed.holds() || is_approved { PATIENCE } else { UNDECIDED };
    let is_settled = condition(request, "Denied").holds() || !text(request, "/status/certificate").is_empty();
    if is_settled || !is_late {
        return None;
    }
    if failed.holds() {
        let remedy = "ask again with a request that its signer takes";
        return Some(Finding::warning(subject, "could not be signed", remedy).because(failed.why()));
    }
    if is_approved {
        let remedy = format!("look whether a signer for {signer} runs");
        return Some(Finding::warning(subject, "is approved and not signed", remedy));
    }
    let who = text(request, "/spec/username");
    let (cause, it) = match node_of(request) {
        Some(node) => (format!("{who} asks {signer} for node {node}"), format!("it is node {node}")),
        None => (format!("{who} asks {signer}"), format!("it is {who}")),
    };
    let remedy = format!(
        "`kubectl certificate approve {name}` if {it} that asks, `kubectl certificate deny {name}` if not"
    );
    Some(Finding::warning(subject, "waits for somebody to decide", remedy).because(cause))
}

/// The node that a certificate is asked for: by the name in it, or by who asks.
fn node_of(request: &Object) -> Option<String> {
    let pem = STANDARD.decode(text(request, "/spec/request")).ok();
    let asked = pem.and_then(|pem| Request::read(&pem).ok()).map(|asked| asked.common_name);
    let users = [asked.as_deref().unwrap_or_default(), text(request, "/spec/username")];
    users.into_iter().find_map(node::of_user).map(str::to_owned)
}
