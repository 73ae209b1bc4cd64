//! How a node registers: what is noted of it then, and what of that it never writes itself; and which pods a node is given that
//! is not trusted.

use api::strategy::{Cause, Json};
use apiserver::admission::{Admission, Attempt, Operation};
use apiserver::auth::nodes::names::is_mirror;
use apiserver::auth::nodes::node_of;
use apiserver::{Identity, Resource, Status};
use async_trait::async_trait;
use jiff::Timestamp;

use super::lookup::Lookup;
use super::pods::{forbidden, spec, text};
use crate::options::NodeAdmission;
use crate::trust;

/// Keeps Nodes as the mode of the master wants them.
#[derive(Clone, Debug)]
pub struct Registration {
    lookup: Lookup,
    wanted: NodeAdmission,
}

impl Registration {
    /// By that mode; finds nodes there.
    pub fn new(lookup: Lookup, wanted: NodeAdmission) -> Self {
        Self { lookup, wanted }
    }

    /// A Node that is made: by the node itself, which is noted, or by somebody who may say what he likes.
    fn register(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        if let Some(node) = node_of(attempt.user) {
            trust::admit(&self.wanted, attempt.user.peer).map_err(|why| forbidden(attempt, &why))?;
            trust::note(&mut attempt.object, attempt.user);
            if let Some(reserved) = self.lookup.get("nodes", "", node).filter(trust::is_reserved) {
                trust::take_over(&mut attempt.object, &reserved);
            }
        }
        if let Some(found) = trust::judge(&self.wanted, &attempt.object) {
            trust::settle(&mut attempt.object, &found, Timestamp::now());
        }
        Ok(())
    }

    /// A pod that is given a node which is not trusted, and does not say that it minds nothing.
    fn place(&self, attempt: &Attempt<'_>) -> Result<(), Status> {
        let node = |pod| spec(pod).map(|spec| text(spec, "nodeName").to_owned()).unwrap_or_default();
        let (before, node) = (attempt.old.map(node).unwrap_or_default(), node(&attempt.object));
        // What a node runs by itself it only shows.
        if node.is_empty()
            || node == before
            || is_mirror(&attempt.object)
            || trust::tolerates(&attempt.object)
        {
            return Ok(());
        }
        let found = self.lookup.get("nodes", "", &node);
        if found.is_some_and(|node| trust::is_tainted(&node)) {
            let taint = trust::TAINT;
            let why = format!(
                "node {node:?} is not trusted to take work, and the pod does not tolerate its taint {taint}"
            );
            return Err(forbidden(attempt, &why));
        }
        Ok(())
    }
}

#[async_trait]
impl Admission for Registration {
    async fn mutate(&self, attempt: &mut Attempt<'_>) -> Result<(), Status> {
        if !attempt.is_of("nodes") {
            return Ok(());
        }
        match (attempt.operation, attempt.subresource, attempt.old) {
            (Operation::Create, None, _) => self.register(attempt),
            (Operation::Update, _, Some(old)) if node_of(attempt.user).is_some() => {
                trust::keep(&mut attempt.object, old);
                if trust::is_signed_anew(old, attempt.user) {
                    trust::note_signer(&mut attempt.object, attempt.user);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn validate(&self, attempt: &Attempt<'_>) -> Result<(), Status> {
        let is_written = matches!(attempt.operation, Operation::Create | Operation::Update);
        if attempt.is_of("pods") && is_written && matches!(attempt.subresource, None | Some("binding")) {
            return self.place(attempt);
        }
        if attempt.is_of("nodes") && is_written && attempt.subresource.is_none() {
            let nonsense = trust::nonsense(&attempt.object).filter(|found| {
                // What stands there since before it was looked at is in nobody's way.
                attempt.old.and_then(trust::nonsense).as_ref() != Some(found)
            });
            if let Some((annotation, value, why)) = nonsense {
                let cause = Cause::invalid(format!("metadata.annotations[{annotation}]"), value, why);
                return Err(Status::invalid(attempt.resource, attempt.name, &[cause]));
            }
        }
        Ok(())
    }

    fn keeps_place(&self, resource: &Resource, there: &Json, user: &Identity) -> bool {
        let name = there.get("metadata").and_then(|metadata| metadata.get("name")?.as_str());
        resource.stored() == "nodes" && trust::is_reserved(there) && name.is_some() && node_of(user) == name
    }
}
