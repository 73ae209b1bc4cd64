//! CustomResourceDefinitions whose kinds are not served, or not under the names they ask for. Pure.

use super::field::{condition, text};
use super::{PATIENCE, World};
use crate::check::finding::{Finding, Subject};
use crate::controllers::Object;

/// What is wrong with definitions.
pub fn findings(world: &World) -> Vec<Finding> {
    let definitions = world.of("customresourcedefinitions").iter();
    definitions.filter_map(|definition| of_definition(world, definition)).collect()
}

fn of_definition(world: &World, definition: &Object) -> Option<Finding> {
    let subject = Subject::of("CustomResourceDefinition", definition);
    let (names, established) = (condition(definition, "NamesAccepted"), condition(definition, "Established"));
    let structural = condition(definition, "NonStructuralSchema");
    if definition.is_ending {
        let is_late = world.since(text(definition, "/metadata/deletionTimestamp")) > PATIENCE;
        let remedy = "finalizers hold objects of it: start what takes them off, or take them off yourself";
        return is_late.then(|| {
            Finding::problem(subject, "is to be gone and is not", remedy)
                .because(condition(definition, "Terminating").why())
        });
    }
    if names.status == "False" {
        let remedy = "rename it, or delete the definition that has the name";
        return Some(Finding::problem(subject, "does not get its names", remedy).because(names.why()));
    }
    if !established.holds() && world.since(&definition.created) > PATIENCE {
        let remedy = "the master's log says why; the definition written again is looked at again";
        return Some(Finding::problem(subject, "is not served", remedy).because(established.why()));
    }
    structural.holds().then(|| {
        let remedy = "correct its schema as the message says";
        Finding::warning(subject, "has a schema that is not structural", remedy).because(structural.why())
    })
}
