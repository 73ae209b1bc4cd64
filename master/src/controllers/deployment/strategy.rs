//! The limits of a rolling update: surge and unavailability. Pure.

use crate::objects::Deployment;
use crate::objects::values::{IntOrString, Rounding};

/// Limits of a Deployment in pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of pods above the desired number.
    pub surge: i64,
    /// Maximum number of unavailable pods. It is at most the desired number.
    pub unavailable: i64,
}

impl Limits {
    /// Computes the limits. They are 0 for other strategies than a rolling update.
    ///
    /// Percentages of surge are rounded up, those of unavailability down. If both are 0, one pod may be
    /// unavailable, because no rollout could make progress otherwise.
    pub fn of(deployment: &Deployment) -> Self {
        if !is_rolling(deployment) {
            return Self { surge: 0, unavailable: 0 };
        }
        let (wanted, rolling) = (deployment.replicas(), &deployment.spec.strategy.rolling_update);
        let scaled = |value: &Option<IntOrString>, rounding: Rounding| {
            value.as_ref().map_or(0, |value| value.scaled(wanted, rounding))
        };
        let surge = scaled(&rolling.max_surge, Rounding::Up);
        let unavailable = match scaled(&rolling.max_unavailable, Rounding::Down) {
            0 if surge == 0 => 1,
            unavailable => unavailable,
        };
        Self { surge, unavailable: unavailable.min(wanted) }
    }
}

pub fn is_rolling(deployment: &Deployment) -> bool {
    &*deployment.spec.strategy.r#type == "RollingUpdate"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::deployment::{DeploymentSpec, DeploymentStrategy, RollingUpdate};

    #[test]
    fn limits_are_numbers_or_percentages() {
        let of = |value: &str| match value.parse() {
            Ok(number) => IntOrString::Int(number),
            Err(_) => IntOrString::String(value.into()),
        };
        for (kind, replicas, surge, unavailable, expected) in [
            ("RollingUpdate", 10, "25%", "25%", (3, 2)),
            ("RollingUpdate", 1, "25%", "25%", (1, 0)),
            ("RollingUpdate", 3, "2", "1", (2, 1)),
            ("RollingUpdate", 4, "100%", "100%", (4, 4)),
            ("RollingUpdate", 2, "0", "5", (0, 2)),
            // Both round to zero.
            ("RollingUpdate", 3, "0%", "10%", (0, 1)),
            ("RollingUpdate", 3, "0", "0", (0, 1)),
            ("RollingUpdate", 0, "25%", "25%", (0, 0)),
            ("Recreate", 3, "1", "1", (0, 0)),
        ] {
            let rolling_update =
                RollingUpdate { max_surge: Some(of(surge)), max_unavailable: Some(of(unavailable)) };
            let strategy = DeploymentStrategy { r#type: kind.into(), rolling_update };
            let spec = DeploymentSpec { replicas: Some(replicas), strategy, ..DeploymentSpec::default() };
            let limits = Limits::of(&Deployment { spec, ..Deployment::default() });
            assert_eq!(
                (limits.surge, limits.unavailable),
                expected,
                "{kind} {replicas} {surge} {unavailable}"
            );
        }
    }
}
