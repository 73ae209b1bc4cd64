//! What types are called in the documents: `io.k8s.api.apps.v1.Deployment` for what the table calls `apps.v1.Deployment`.

/// The full name of a type of the table.
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

/// The full name of a kind that is defined at run time: its group backwards, its version, itself.
pub(super) fn custom(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').rev().collect();
    parts.extend([version, kind]);
    parts.join(".")
}

/// A word with a capital, for ids of operations: `apps` is `Apps`, `rbac.authorization.k8s.io` is `RbacAuthorization`.
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
