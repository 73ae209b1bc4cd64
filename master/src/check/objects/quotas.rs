//! Checks ResourceQuotas that are exhausted. Pure.

use crate::check::finding::{Finding, Subject};
use crate::objects::resources::quantities;

use super::World;
use super::kinds::ResourceQuota;

/// Findings for all ResourceQuotas.
pub fn findings(world: &World) -> Vec<Finding> {
    world.lists.resource_quotas.iter().filter_map(exhausted).collect()
}

fn exhausted(quota: &ResourceQuota) -> Option<Finding> {
    let (hard, used) = (quantities(&quota.status.hard), quantities(&quota.status.used));
    let full = hard.iter().filter_map(|(name, most)| {
        let there = used.get(name)?;
        // A limit of 0 forbids the resource intentionally.
        (!most.is_zero() && there >= most).then(|| format!("{name} {there} of {most}"))
    });
    let full: Vec<String> = full.collect();
    (!full.is_empty()).then(|| {
        let remedy = format!(
            "raise it (`kubectl edit quota -n {} {}`), or delete unused objects",
            quota.metadata.namespace, quota.metadata.name
        );
        Finding::warning(Subject::of("ResourceQuota", &quota.metadata), "is exhausted", remedy)
            .because(full.join(", "))
    })
}
