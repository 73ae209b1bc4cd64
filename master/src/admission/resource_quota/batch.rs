//! Evaluates concurrent requests against a quota, in order. Pure.

use api::strategy::Json;

use super::QuotaError;
use crate::quota::{Amounts, Quota, increase};

/// A request that adds usage.
#[derive(Clone, Debug)]
pub struct QuotaRequest {
    /// The resource, such as `pods` or `deployments.apps`.
    pub resource: String,
    pub object: Json,
    /// The usage of the new object.
    pub usage: Amounts,
    /// The existing object and its usage.
    pub old: Option<(Json, Amounts)>,
}

impl QuotaRequest {
    /// The usage that the request adds to a quota: the increase, or the whole usage if the old object did not count.
    pub fn share(&self, quota: &Quota) -> Amounts {
        if !quota.counts(&self.resource, &self.object) {
            return Amounts::new();
        }
        match &self.old {
            Some((old, before)) if quota.counts(&self.resource, old) => {
                quota.share(&increase(&self.usage, before))
            }
            _ => quota.share(&self.usage),
        }
    }
}

/// Rejects requests that exceed the quota, and skips those that were rejected before. Returns the resulting usage.
pub fn decide(quota: &Quota, requests: &[QuotaRequest], verdicts: &mut [Result<(), QuotaError>]) -> Amounts {
    let mut quota = quota.clone();
    for (request, verdict) in requests.iter().zip(verdicts) {
        if verdict.is_err() {
            continue;
        }
        let share = request.share(&quota);
        if share.is_empty() {
            continue;
        }
        match quota.add_usage(&share) {
            Ok(used) => quota.used = used,
            Err(why) => *verdict = Err(QuotaError::Exceeded(why)),
        }
    }
    quota.used
}

#[cfg(test)]
mod tests {
    //! Tests of which concurrent requests are admitted.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn batch_admits_requests_within_the_quota_and_rejects_the_rest() {
        let quota = json!({
            "metadata": {"name": "q"}, "spec": {"hard": {"secrets": "3"}}, "status": {"used": {"secrets": "1"}},
        });
        let quota = Quota::of(quota.as_object().unwrap());
        let request = |resource: &str| QuotaRequest {
            resource: resource.to_owned(),
            object: Json::new(),
            usage: crate::quota::usage(resource, &Json::new(), jiff::Timestamp::UNIX_EPOCH),
            old: None,
        };
        let requests = [
            request("secrets"),
            request("configmaps"),
            request("secrets"),
            request("secrets"),
            request("secrets"),
        ];
        let mut verdicts: Vec<_> = requests.iter().map(|_| Ok(())).collect();
        verdicts[0] = Err(QuotaError::Exceeded("another".to_owned()));
        let used = decide(&quota, &requests, &mut verdicts);
        assert_eq!(used["secrets"].to_string(), "3");
        let passed: Vec<bool> = verdicts.iter().map(Result::is_ok).collect();
        assert_eq!(passed, [false, true, true, true, false]);
        let Err(QuotaError::Exceeded(why)) = &verdicts[4] else { panic!("{verdicts:?}") };
        assert_eq!(why, "exceeded quota: q, requested: secrets=1, used: secrets=3, limited: secrets=3");
    }

    #[test]
    fn quota_charges_new_objects_fully_and_updates_by_their_increase() {
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
            let request = QuotaRequest {
                resource: "pods".to_owned(),
                usage: usage(&new),
                old: old.clone().map(|old| (old.clone(), usage(&old))),
                object: new.clone(),
            };
            let share = request.share(&quota);
            let amounts: Vec<String> =
                share.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
            assert_eq!(amounts.join(" "), expected, "{scope}: {old:?} -> {new:?}");
        }
    }
}
