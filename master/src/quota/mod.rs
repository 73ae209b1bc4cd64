//! What a ResourceQuota counts, of what, and how much is left. Pure.

mod pod;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::BTreeMap;

use api::quantity::Quantity;
use serde_json::{Map, Value};

pub use self::usage::usage;

/// An object as it is stored.
pub type Json = Map<String, Value>;
/// Amounts by what is counted: `pods`, `requests.cpu`, `count/deployments.apps`.
pub type Amounts = BTreeMap<String, Quantity>;

/// A quota.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quota {
    /// Its name.
    pub name: String,
    /// How much there may be: `spec.hard`.
    pub hard: Amounts,
    /// How much there is, as far as it has been counted: `status.used`.
    pub used: Amounts,
    scopes: Vec<Value>,
}

impl Quota {
    /// Reads a quota; amounts that are none are left out.
    pub fn of(quota: &Json) -> Self {
        let at = |pointer: [&str; 2]| quota.get(pointer[0]).and_then(|part| part.get(pointer[1]));
        let named = |scope: &Value| serde_json::json!({"scopeName": scope, "operator": "Exists"});
        let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
        let mut scopes: Vec<Value> = list(at(["spec", "scopes"])).iter().map(named).collect();
        scopes.extend(list(at(["spec", "scopeSelector"]).and_then(|of| of.get("matchExpressions"))));
        Self {
            name: at(["metadata", "name"]).and_then(Value::as_str).unwrap_or_default().to_owned(),
            hard: amounts(at(["spec", "hard"])),
            used: amounts(at(["status", "used"])),
            scopes,
        }
    }

    /// True when it limits something of objects of that resource.
    pub fn limits(&self, resource: &str) -> bool {
        !usage::names(resource, &self.hard).is_empty()
    }

    /// True when objects like this one count for it.
    pub fn counts(&self, resource: &str, object: &Json) -> bool {
        self.limits(resource) && self.scopes.iter().all(|scope| usage::is_in_scope(scope, resource, object))
    }

    /// What of an object's usage it counts.
    pub fn share(&self, usage: &Amounts) -> Amounts {
        let own = usage.iter().filter(|(name, amount)| self.hard.contains_key(*name) && !amount.is_zero());
        own.map(|(name, amount)| (name.clone(), *amount)).collect()
    }

    /// What of it has not been counted yet, of what these objects use; empty when all has.
    pub fn unknown(&self, resource: &str) -> Vec<String> {
        let names = usage::names(resource, &self.hard);
        names.into_iter().filter(|name| !self.used.contains_key(name)).collect()
    }

    /// What the containers of a pod have to say for it to be counted, and do not; in the stock words.
    pub fn unsaid(&self, resource: &str, object: &Json) -> Option<String> {
        if resource != "pods" {
            return None;
        }
        let missing = pod::unsaid(object, &self.hard);
        let one =
            |(name, containers): (&String, &Vec<String>)| format!("{name} for: {}", containers.join(","));
        (!missing.is_empty())
            .then(|| format!("must specify {}", missing.iter().map(one).collect::<Vec<_>>().join("; ")))
    }

    /// How much there will be.
    ///
    /// # Errors
    /// What there is too little left for, in the stock words.
    pub fn with(&self, share: &Amounts) -> Result<Amounts, String> {
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

    /// Everything that is counted, nothing of it used.
    pub fn nothing(&self) -> Amounts {
        self.hard.keys().map(|name| (name.clone(), Quantity::ZERO)).collect()
    }
}

/// The sum of both.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        total.entry(name.clone()).and_modify(|sum| *sum = sum.plus(*amount)).or_insert(*amount);
    }
}

/// What is more in the first than in the second.
pub fn growth(now: &Amounts, before: &Amounts) -> Amounts {
    let more = |(name, amount): (&String, &Quantity)| {
        let old = before.get(name).copied().unwrap_or(Quantity::ZERO);
        // Amounts have no difference of their own, but they have signs.
        let less = format!("-{old}").parse().unwrap_or(Quantity::ZERO);
        (*amount > old).then(|| (name.clone(), amount.plus(less)))
    };
    now.iter().filter_map(more).collect()
}

/// The amounts of an object's field.
pub fn amounts(value: Option<&Value>) -> Amounts {
    let read = |(name, amount): (&String, &Value)| {
        let text = match amount {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        Some((name.clone(), text.parse().ok()?))
    };
    value.and_then(Value::as_object).into_iter().flatten().filter_map(read).collect()
}

/// The field of an object.
pub fn texts(amounts: &Amounts) -> Value {
    amounts
        .iter()
        .map(|(name, amount)| (name.clone(), Value::from(amount.to_string())))
        .collect::<Json>()
        .into()
}
