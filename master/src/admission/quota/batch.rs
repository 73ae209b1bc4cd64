//! Decides about writes that come at once, in their order. Pure.

use api::strategy::Json;

use super::Refused;
use crate::quota::{Amounts, Quota, growth};

/// A write that adds to what there is.
#[derive(Clone, Debug)]
pub struct Ask {
    /// `pods` or `deployments.apps`.
    pub resource: String,
    /// The object as it will be.
    pub object: Json,
    /// What it uses then.
    pub usage: Amounts,
    /// The object that is there, and what that uses.
    pub old: Option<(Json, Amounts)>,
}

impl Ask {
    /// What it adds to what a quota counts: all of an object that was not counted there before.
    pub fn share(&self, quota: &Quota) -> Amounts {
        if !quota.counts(&self.resource, &self.object) {
            return Amounts::new();
        }
        match &self.old {
            Some((old, before)) if quota.counts(&self.resource, old) => {
                quota.share(&growth(&self.usage, before))
            }
            _ => quota.share(&self.usage),
        }
    }
}

/// Refuses what there is too little left for, of what nobody has refused before; how much there will be then.
pub fn decide(quota: &Quota, asks: &[Ask], verdicts: &mut [Result<(), Refused>]) -> Amounts {
    let mut quota = quota.clone();
    for (ask, verdict) in asks.iter().zip(verdicts) {
        if verdict.is_err() {
            continue;
        }
        let share = ask.share(&quota);
        if share.is_empty() {
            continue;
        }
        match quota.with(&share) {
            Ok(used) => quota.used = used,
            Err(why) => *verdict = Err(Refused::Exceeded(why)),
        }
    }
    quota.used
}

#[cfg(test)]
mod tests {
    //! Who passes when several come at once.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn as_many_pass_as_there_is_left_and_the_rest_hear_why() {
        let quota = json!({
            "metadata": {"name": "q"}, "spec": {"hard": {"secrets": "3"}}, "status": {"used": {"secrets": "1"}},
        });
        let quota = Quota::of(quota.as_object().unwrap());
        let ask = |resource: &str| Ask {
            resource: resource.to_owned(),
            object: Json::new(),
            usage: crate::quota::usage(resource, &Json::new(), jiff::Timestamp::UNIX_EPOCH),
            old: None,
        };
        let asks = [ask("secrets"), ask("configmaps"), ask("secrets"), ask("secrets"), ask("secrets")];
        let mut verdicts: Vec<_> = asks.iter().map(|_| Ok(())).collect();
        verdicts[0] = Err(Refused::Exceeded("another".to_owned()));
        let used = decide(&quota, &asks, &mut verdicts);
        assert_eq!(used["secrets"].to_string(), "3");
        let passed: Vec<bool> = verdicts.iter().map(Result::is_ok).collect();
        assert_eq!(passed, [false, true, true, true, false]);
        let Err(Refused::Exceeded(why)) = &verdicts[4] else { panic!("{verdicts:?}") };
        assert_eq!(why, "exceeded quota: q, requested: secrets=1, used: secrets=3, limited: secrets=3");
    }

    #[test]
    fn what_comes_into_scope_counts_whole_and_what_is_in_it_by_its_growth() {
        let pod = |cpu: &str, fields: serde_json::Value| {
            let mut pod =
                json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
            pod["spec"].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            pod.as_object().unwrap().clone()
        };
        let usage = |pod: &Json| crate::quota::usage("pods", pod, jiff::Timestamp::UNIX_EPOCH);
        let (bare, ends) = (json!({}), json!({"activeDeadlineSeconds": 60}));
        let high = json!({"priorityClassName": "high"});
        let terminating = json!({"scopes": ["Terminating"]});
        let of_class = json!({"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}});
        for (scope, old, new, expected) in [
            (&terminating, Some(pod("1", bare.clone())), pod("2", ends.clone()), "pods=1 requests.cpu=2"),
            (&terminating, Some(pod("1", bare.clone())), pod("1", ends.clone()), "pods=1 requests.cpu=1"),
            (&terminating, Some(pod("1", ends.clone())), pod("3", ends.clone()), "requests.cpu=2"),
            (&terminating, Some(pod("1", ends.clone())), pod("1", ends.clone()), ""),
            (&terminating, Some(pod("1", ends.clone())), pod("2", bare.clone()), ""),
            (&terminating, None, pod("2", ends.clone()), "pods=1 requests.cpu=2"),
            (&of_class, Some(pod("1", bare.clone())), pod("1", high.clone()), "pods=1 requests.cpu=1"),
            (&of_class, Some(pod("1", high.clone())), pod("2", high.clone()), "requests.cpu=1"),
            (&bare, Some(pod("1", bare.clone())), pod("2", high), "requests.cpu=1"),
        ] {
            let mut quota =
                json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "9", "requests.cpu": "9"}}});
            quota["spec"].as_object_mut().unwrap().extend(scope.as_object().unwrap().clone());
            let quota = Quota::of(quota.as_object().unwrap());
            let ask = Ask {
                resource: "pods".to_owned(),
                usage: usage(&new),
                old: old.clone().map(|old| (old.clone(), usage(&old))),
                object: new.clone(),
            };
            let share = ask.share(&quota);
            let told: Vec<String> = share.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
            assert_eq!(told.join(" "), expected, "{scope}: {old:?} -> {new:?}");
        }
    }
}
