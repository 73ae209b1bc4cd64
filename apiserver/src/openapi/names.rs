//! Type names: the type `apps.v1.Deployment` of the schema table is `io.k8s.api.apps.v1.Deployment` in OpenAPI.

/// Full name of a type in the schema table.
pub(super) fn full(name: &str) -> String {
    let package = match name {
        _ if name.starts_with("meta.v1.") => "io.k8s.apimachinery.pkg.apis.",
        _ if name.starts_with("api.resource.") => "io.k8s.apimachinery.pkg.",
        _ if name.starts_with("util.intstr.") => "io.k8s.apimachinery.pkg.",
        _ if name.starts_with("pkg.runtime.") => "io.k8s.apimachinery.",
        _ if name.starts_with("apiextensions.v1.") => "io.k8s.apiextensions-apiserver.pkg.apis.",
        _ if name.starts_with("apiregistration.v1.") => "io.k8s.kube-aggregator.pkg.apis.",
        _ => "io.k8s.api.",
    };
    format!("{package}{name}")
}

/// Full name of a custom kind: reversed group, version, kind.
pub(super) fn custom(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').rev().collect();
    parts.extend([version, kind]);
    parts.join(".")
}

/// Converts a group to CamelCase for operation IDs: `apps` to `Apps`, `rbac.authorization.k8s.io` to
/// `RbacAuthorization`.
pub(super) fn camel(text: &str) -> String {
    let text = text.strip_suffix(".k8s.io").unwrap_or(text);
    let mut capital = true;
    let mut camel = String::with_capacity(text.len());
    for char in text.chars() {
        if !char.is_ascii_alphanumeric() {
            capital = true;
        } else if capital {
            camel.push(char.to_ascii_uppercase());
            capital = false;
        } else {
            camel.push(char);
        }
    }
    camel
}
