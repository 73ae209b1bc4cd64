//! ResourceQuotas and LimitRanges.

use serde::Deserialize;

use super::meta::ObjectMeta;
use super::values::{List, StringMap};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ResourceQuota {
    pub metadata: ObjectMeta,
    /// The desired state, `spec`.
    pub spec: ResourceQuotaSpec,
    pub status: ResourceQuotaStatus,
}

/// `spec` of a ResourceQuota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceQuotaSpec {
    /// Limits by quota resource name.
    pub hard: StringMap,
    /// Scopes that an object must be in.
    pub scopes: List<Box<str>>,
    /// Scopes with operators.
    pub scope_selector: ScopeSelector,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScopeSelector {
    /// Requirements, all of which must be fulfilled.
    pub match_expressions: List<ScopeRequirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScopeRequirement {
    /// Name of the scope, such as `BestEffort`.
    pub scope_name: Box<str>,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: Box<str>,
    /// Values for the operator.
    pub values: List<Box<str>>,
}

/// `status` of a ResourceQuota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResourceQuotaStatus {
    /// Limits that are in effect.
    pub hard: StringMap,
    /// Usage by quota resource name.
    pub used: StringMap,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LimitRange {
    /// The desired state, `spec`.
    pub spec: LimitRangeSpec,
}

/// `spec` of a LimitRange.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LimitRangeSpec {
    pub limits: List<LimitRangeItem>,
}

/// Limits of a LimitRange for one type of object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LimitRangeItem {
    /// `Pod`, `Container` or `PersistentVolumeClaim`.
    pub r#type: Box<str>,
    /// Maximum quantities.
    pub max: StringMap,
    /// Minimum quantities.
    pub min: StringMap,
    /// Default limits.
    pub default: StringMap,
    pub default_request: StringMap,
    /// Maximum ratio of limit to request.
    pub max_limit_request_ratio: StringMap,
}
