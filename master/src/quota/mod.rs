//! ResourceQuota arithmetic: what a quota limits, what counts towards it, and what is left. Pure.

mod pod;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::BTreeMap;

use api::quantity::Quantity;
use serde_json::{Map, Value};

pub use self::usage::usage;
use crate::objects::pod::PodSpec;
use crate::objects::quota::{ResourceQuota, ScopeRequirement};
use crate::objects::resources::quantities;
use crate::objects::{self, Spec};

/// An object as JSON.
pub type Json = Map<String, Value>;
/// Quantities by quota resource name, such as `pods`, `requests.cpu` or `count/deployments.apps`.
pub type Amounts = BTreeMap<String, Quantity>;

/// The parts of a ResourceQuota that count and limit usage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quota {
    pub name: String,
    /// The limits, `spec.hard`.
    pub hard: Amounts,
    /// The counted usage, `status.used`.
    pub used: Amounts,
    scopes: Vec<ScopeRequirement>,
}

impl Quota {
    /// Parses a quota. Invalid quantities are left out.
    pub fn of(quota: &Json) -> Self {
        let ResourceQuota { metadata, spec, status } = objects::read(quota);
        let exists = |scope_name| ScopeRequirement {
            scope_name,
            operator: "Exists".into(),
            ..ScopeRequirement::default()
        };
        let mut scopes: Vec<ScopeRequirement> = spec.scopes.into_iter().map(exists).collect();
        scopes.extend(spec.scope_selector.match_expressions);
        Self {
            name: metadata.name.into(),
            hard: quantities(&spec.hard),
            used: quantities(&status.used),
            scopes,
        }
    }

    /// Whether the quota limits objects of this resource.
    pub fn limits(&self, resource: &str) -> bool {
        !usage::names(resource, &self.hard).is_empty()
    }

    /// Whether this object counts towards the quota.
    pub fn counts(&self, resource: &str, object: &Json) -> bool {
        if !self.limits(resource) || self.scopes.is_empty() {
            return self.limits(resource);
        }
        // Scopes select only pods.
        let is_pod = resource == "pods";
        let spec = if is_pod { objects::read::<Spec<PodSpec>>(object).spec } else { PodSpec::default() };
        is_pod && self.scopes.iter().all(|scope| pod::is_in_scope(scope, &spec))
    }

    /// The part of a usage that the quota limits.
    pub fn share(&self, usage: &Amounts) -> Amounts {
        let own = usage.iter().filter(|(name, amount)| self.hard.contains_key(*name) && !amount.is_zero());
        own.map(|(name, amount)| (name.clone(), *amount)).collect()
    }

    /// The names of limited resources that are not counted yet.
    pub fn uncounted(&self, resource: &str) -> Vec<String> {
        let names = usage::names(resource, &self.hard);
        names.into_iter().filter(|name| !self.used.contains_key(name)).collect()
    }

    /// The stock message for containers that lack requests or limits which the quota requires.
    pub fn missing_requests(&self, resource: &str, object: &Json) -> Option<String> {
        if resource != "pods" {
            return None;
        }
        let missing = pod::missing_requests(&objects::read::<Spec<PodSpec>>(object).spec, &self.hard);
        let one =
            |(name, containers): (&String, &Vec<String>)| format!("{name} for: {}", containers.join(","));
        (!missing.is_empty())
            .then(|| format!("must specify {}", missing.iter().map(one).collect::<Vec<_>>().join("; ")))
    }

    /// The usage after `share` is added.
    ///
    /// # Errors
    /// If a limit is exceeded. The error is the stock message.
    pub fn add_usage(&self, share: &Amounts) -> Result<Amounts, String> {
        let mut used = self.used.clone();
        let mut exceeded = Vec::new();
        for (name, amount) in share {
            let sum = used.get(name).copied().unwrap_or(Quantity::ZERO).plus(*amount);
            if self.hard.get(name).is_some_and(|hard| sum > *hard) {
                exceeded.push(name.as_str());
            }
            used.insert(name.clone(), sum);
        }
        if exceeded.is_empty() {
            return Ok(used);
        }
        let of = |amounts: &Amounts| {
            let one =
                |name: &&str| format!("{name}={}", amounts.get(*name).copied().unwrap_or(Quantity::ZERO));
            exceeded.iter().map(one).collect::<Vec<_>>().join(",")
        };
        Err(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            self.name,
            of(share),
            of(&self.used),
            of(&self.hard)
        ))
    }

    /// All limited resources with zero usage.
    pub fn zero_usage(&self) -> Amounts {
        self.hard.keys().map(|name| (name.clone(), Quantity::ZERO)).collect()
    }
}

/// Adds quantities to a total.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        total.entry(name.clone()).and_modify(|sum| *sum = sum.plus(*amount)).or_insert(*amount);
    }
}

/// The increase from `before` to `now`.
pub fn increase(now: &Amounts, before: &Amounts) -> Amounts {
    let more = |(name, amount): (&String, &Quantity)| {
        let old = before.get(name).copied().unwrap_or(Quantity::ZERO);
        // Quantities cannot be subtracted, but negative ones can be added.
        let less = format!("-{old}").parse().unwrap_or(Quantity::ZERO);
        (*amount > old).then(|| (name.clone(), amount.plus(less)))
    };
    now.iter().filter_map(more).collect()
}

/// Formats quantities as a JSON field.
pub fn texts(amounts: &Amounts) -> Value {
    amounts
        .iter()
        .map(|(name, amount)| (name.clone(), Value::from(amount.to_string())))
        .collect::<Json>()
        .into()
}
