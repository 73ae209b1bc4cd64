//! Quotas with nothing left: the next object that counts is refused. Pure.

use crate::check::finding::{Finding, Subject};
use crate::controllers::Object;
use crate::quota::amounts;

use super::World;

/// What is wrong with quotas.
pub fn findings(world: &World) -> Vec<Finding> {
    world.of("resourcequotas").iter().filter_map(exhausted).collect()
}

fn exhausted(quota: &Object) -> Option<Finding> {
    let (hard, used) = (amounts(quota.kept("/status/hard")), amounts(quota.kept("/status/used")));
    let full = hard.iter().filter_map(|(name, most)| {
        let there = used.get(name)?;
        // A limit of nothing forbids, which is meant.
        (!most.is_zero() && there >= most).then(|| format!("{name} {there} of {most}"))
    });
    let full: Vec<String> = full.collect();
    (!full.is_empty()).then(|| {
        let remedy = format!(
            "raise it (`kubectl edit quota -n {} {}`), or delete what nobody needs",
            quota.namespace, quota.name
        );
        Finding::warning(Subject::of("ResourceQuota", quota), "is used up", remedy).because(full.join(", "))
    })
}
