//! Checks CustomResourceDefinitions that are not served or whose names are not accepted. Pure.

use super::field::{condition, why};
use super::{PATIENCE, World};
use crate::check::finding::{Finding, Subject};
use crate::objects::Conditioned;

/// Findings for all CustomResourceDefinitions.
pub fn findings(world: &World) -> Vec<Finding> {
    let definitions = world.lists.custom_resource_definitions.iter();
    definitions.filter_map(|definition| of_definition(world, definition)).collect()
}

fn of_definition(world: &World, definition: &Conditioned) -> Option<Finding> {
    let Conditioned { metadata, status } = definition;
    let subject = Subject::of("CustomResourceDefinition", metadata);
    let condition = |kind: &str| condition(&status.conditions, kind);
    let (names, established) = (condition("NamesAccepted"), condition("Established"));
    let structural = condition("NonStructuralSchema");
    if metadata.is_terminating() {
        let is_late = world.since(metadata.deletion_timestamp) > PATIENCE;
        let remedy =
            "finalizers block its objects: start the controllers that remove them, or remove them manually";
        return is_late.then(|| {
            Finding::problem(subject, "is stuck in deletion", remedy).because(why(condition("Terminating")))
        });
    }
    if &*names.status == "False" {
        let remedy = "rename it, or delete the definition that uses the name";
        return Some(Finding::problem(subject, "has names that are in use", remedy).because(why(names)));
    }
    if !established.is_true() && world.since(metadata.creation_timestamp) > PATIENCE {
        let remedy = "the master's log says why; update the definition to retry";
        return Some(Finding::problem(subject, "is not served", remedy).because(why(established)));
    }
    structural.is_true().then(|| {
        let remedy = "correct its schema according to the message";
        Finding::warning(subject, "has a non-structural schema", remedy).because(why(structural))
    })
}
