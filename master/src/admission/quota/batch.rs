//! Decides about writes that come at once, in their order. Pure.

use api::strategy::Json;

use super::Refused;
use crate::quota::{Amounts, Quota};

/// A write that adds to what there is.
#[derive(Clone, Debug)]
pub struct Ask {
    /// `pods` or `deployments.apps`.
    pub resource: String,
    /// The object as it will be.
    pub object: Json,
    /// What it adds.
    pub usage: Amounts,
}

/// Refuses what there is too little left for, of what nobody has refused before; how much there will be then.
pub fn decide(quota: &Quota, asks: &[Ask], verdicts: &mut [Result<(), Refused>]) -> Amounts {
    let mut quota = quota.clone();
    for (ask, verdict) in asks.iter().zip(verdicts) {
        if verdict.is_err() || !quota.counts(&ask.resource, &ask.object) {
            continue;
        }
        let share = quota.share(&ask.usage);
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
}
