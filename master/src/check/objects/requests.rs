//! Requests for certificates that nobody decides on, or that nobody signs. Pure.

use super::field::{condition, text};
use super::{PATIENCE, World};
use crate::check::finding::{Finding, Subject};
use crate::controllers::Object;

/// What is wrong with requests.
pub fn findings(world: &World) -> Vec<Finding> {
    let late = world
        .of("certificatesigningrequests")
        .iter()
        .filter(|request| world.since(&request.created) > PATIENCE);
    late.filter_map(of_request).collect()
}

fn of_request(request: &Object) -> Option<Finding> {
    let subject = Subject::of("CertificateSigningRequest", request);
    let failed = condition(request, "Failed");
    let (name, signer) = (&request.name, text(request, "/spec/signerName"));
    if condition(request, "Denied").holds() || !text(request, "/status/certificate").is_empty() {
        return None;
    }
    if failed.holds() {
        let remedy = "ask again with a request that its signer takes";
        return Some(Finding::warning(subject, "could not be signed", remedy).because(failed.why()));
    }
    if condition(request, "Approved").holds() {
        let remedy = format!("look whether a signer for {signer} runs");
        return Some(Finding::warning(subject, "is approved and not signed", remedy));
    }
    let who = text(request, "/spec/username");
    let remedy = format!(
        "`kubectl certificate approve {name}` if {who} is who it says, `kubectl certificate deny {name}` if not"
    );
    Some(
        Finding::warning(subject, "waits for somebody to decide", remedy)
            .because(format!("{who} asks {signer}")),
    )
}
