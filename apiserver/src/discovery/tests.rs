//! Version order: clients prefer the first one.

use super::rank;

#[test]
fn stable_versions_come_before_beta_before_alpha_before_others() {
    let mut versions = ["foo1", "v1alpha1", "v10", "v2", "v1beta2", "v12alpha1", "v1", "v11beta2", "v3beta1"];
    versions.sort_by_key(|version| (std::cmp::Reverse(rank(version)), version.to_string()));
    assert_eq!(
        versions,
        ["v10", "v2", "v1", "v11beta2", "v3beta1", "v1beta2", "v12alpha1", "v1alpha1", "foo1"]
    );
}
