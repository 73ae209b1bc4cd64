//! Requests for certificates that nobody decides on, or that nobody signs. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;

use super::field::{condition, text};
use super::{PATIENCE, World};
use crate::check::finding::{Finding, Subject};
use crate::controllers::Object;
use crate::pki::{Request, Signer, node};

/// What policies decide of nodes they decide within seconds; a request that is undecided for longer waits for a person, and a machine
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
    let signs_nodes = matches!(Signer::of(signer), Some(Signer::NodeClient | Signer::NodeServing));
    let is_late = age > if failed.holds() || is_approved || !signs_nodes { PATIENCE } else { UNDECIDED };
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
    let asked = asked(request);
    let node = asked.as_ref().filter(|_| signs_nodes).and_then(|asked| node::of_user(&asked.common_name));
    let (cause, it) = match (node, &asked) {
        (Some(node), _) => {
            (format!("{who} asks {signer} for node {node}"), format!("it is node {node} that asks"))
        }
        (None, Some(asked)) => {
            let (name, groups) = (&asked.common_name, &asked.organizations);
            let of = if groups.is_empty() {
                "no groups (O)".to_owned()
            } else {
                format!("the groups (O) {groups:?}")
            };
            (format!("{who} asks {signer} to be {name:?} (CN) of {of}"), format!("{who} may be that"))
        }
        (None, None) => (
            format!("{who} asks {signer} by a request that does not read"),
            format!("you know what {who} asks for"),
        ),
    };
    let remedy =
        format!("`kubectl certificate approve {name}` if {it}, `kubectl certificate deny {name}` if not");
    Some(Finding::warning(subject, "waits for somebody to decide", remedy).because(cause))
}

/// What is asked for: of that alone a certificate is made, whoever asks.
fn asked(request: &Object) -> Option<Request> {
    let pem = STANDARD.decode(text(request, "/spec/request")).ok()?;
    Request::read(&pem).ok()
}
