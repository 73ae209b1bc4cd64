//! Validates environment variables and their sources.

use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, ObjectFieldSelector, ResourceFieldSelector,
};

use super::containers::Volumes;
use super::names::{dns_subdomain, is_data_key, is_env_name, local_path, one_of, qualified_name, required};
use crate::field_error::FieldErrors;
use crate::path::Path;
use crate::quantity::Quantity;

/// Pod fields that environment variables can use, besides labels and annotations.
const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Resources that environment variables and files can use, besides huge pages.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
];

pub(super) fn check(container: &Container, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let env = &path.field("env");
    for (index, variable) in container.env.iter().flatten().enumerate() {
        let path = &env.index(index);
        match variable.name.as_str() {
            "" => required(&path.field("name"), "add the variable's name", errors),
            name => env_name(name, &path.field("name"), errors),
        }
        value(variable, volumes, path, errors);
    }
    let env_from = &path.field("envFrom");
    for (index, source) in container.env_from.iter().flatten().enumerate() {
        let path = &env_from.index(index);
        if let Some(prefix) = source.prefix.as_deref().filter(|prefix| !prefix.is_empty()) {
            env_name(prefix, &path.field("prefix"), errors);
        }
        if let Some(config_map) = &source.config_map_ref {
            reference(&config_map.name, &path.field("configMapRef").field("name"), errors);
        }
        if let Some(secret) = &source.secret_ref {
            reference(&secret.name, &path.field("secretRef").field("name"), errors);
        }
        match (&source.config_map_ref, &source.secret_ref) {
            (None, None) => required(path, "add `configMapRef` or `secretRef`", errors),
            (Some(_), Some(_)) => errors.add(path, "there are two sources", "split it into two elements"),
            _ => {}
        }
    }
}

fn env_name(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if !is_env_name(name) {
        let what =
            format!("`{}` is not a valid variable name: printable ASCII without `=`", name.escape_debug());
        errors.add(path, what, "use capital letters, digits and `_`");
    }
}

fn value(variable: &EnvVar, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(source) = &variable.value_from else { return };
    let path = &path.field("valueFrom");
    let sources = [
        source.field_ref.is_some(),
        source.resource_field_ref.is_some(),
        source.config_map_key_ref.is_some(),
        source.secret_key_ref.is_some(),
        source.file_key_ref.is_some(),
    ];
    match sources.into_iter().filter(|set| *set).count() {
        0 => required(path, "add fieldRef, resourceFieldRef, configMapKeyRef or secretKeyRef", errors),
        _ if variable.value.as_deref().is_some_and(|value| !value.is_empty()) => {
            errors.add(path, "`value` is set too", "keep one of them");
        }
        1 => {}
        _ => errors.add(path, "there are several sources", "keep one of them"),
    }
    sources_of(source, volumes, path, errors);
}

fn sources_of(source: &EnvVarSource, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    if let Some(field) = &source.field_ref {
        field_ref(field, &ENV_FIELDS, &path.field("fieldRef"), errors);
    }
    if let Some(resource) = &source.resource_field_ref {
        resource_field_ref(resource, false, &path.field("resourceFieldRef"), errors);
    }
    if let Some(key) = &source.config_map_key_ref {
        let path = &path.field("configMapKeyRef");
        reference(&key.name, &path.field("name"), errors);
        data_key(&key.key, &path.field("key"), errors);
    }
    if let Some(key) = &source.secret_key_ref {
        let path = &path.field("secretKeyRef");
        reference(&key.name, &path.field("name"), errors);
        data_key(&key.key, &path.field("key"), errors);
    }
    if let Some(key) = &source.file_key_ref {
        let path = &path.field("fileKeyRef");
        if key.key.is_empty() {
            required(&path.field("key"), "add the variable's name in the file", errors);
        } else {
            env_name(&key.key, &path.field("key"), errors);
        }
        if key.path.is_empty() {
            required(&path.field("path"), "add the file's path in the volume", errors);
        } else {
            local_path(&key.path, &path.field("path"), errors);
        }
        match volumes.get(key.volume_name.as_str()) {
            None => {
                let what = format!("there is no volume `{}`", key.volume_name);
                errors.add(&path.field("volumeName"), what, "add it under `spec.volumes`");
            }
            Some(volume) if volume.empty_dir.is_none() => {
                let what = format!("the volume `{}` is not an emptyDir", key.volume_name);
                errors.add(&path.field("volumeName"), what, "use an emptyDir");
            }
            Some(_) => {}
        }
    }
}

fn reference(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    match name {
        "" => required(path, "add the name of the object", errors),
        name => dns_subdomain(name, path, errors),
    }
}

fn data_key(key: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if key.is_empty() {
        required(path, "add the key that holds the value", errors);
    } else if !is_data_key(key) {
        errors.add(path, format!("`{key}` is not a valid key"), "use letters, digits, `-`, `_` and `.`");
    }
}

/// Validates a `fieldRef`.
pub(super) fn field_ref(
    selector: &ObjectFieldSelector,
    known: &[&str],
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let version = selector.api_version.as_deref().unwrap_or_default();
    one_of(version, &["v1"], &path.field("apiVersion"), errors);
    let path = &path.field("fieldPath");
    let field = selector.field_path.as_str();
    if field.is_empty() {
        return required(path, "add the field, such as `status.podIP`", errors);
    }
    match field.strip_suffix(']').and_then(|field| field.split_once("['")) {
        Some((field, key)) => {
            let key = key.strip_suffix('\'').unwrap_or(key);
            match field {
                "metadata.labels" => qualified_name(key, path, errors),
                "metadata.annotations" => qualified_name(&key.to_lowercase(), path, errors),
                _ => errors.add(
                    path,
                    format!("`{field}` has no keys"),
                    "only labels and annotations have keys: metadata.labels['KEY']",
                ),
            }
        }
        None if !known.contains(&field) && matches!(field, "metadata.labels" | "metadata.annotations") => {
            errors.add(path, format!("`{field}` needs a key here"), format!("write {field}['KEY']"));
        }
        None => one_of(field, known, path, errors),
    }
}

/// Validates a `resourceFieldRef`.
pub(super) fn resource_field_ref(
    selector: &ResourceFieldSelector,
    of_volume: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    if of_volume && selector.container_name.as_deref().unwrap_or_default().is_empty() {
        required(&path.field("containerName"), "add the name of the container", errors);
    }
    let resource = selector.resource.as_str();
    let huge = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if resource.is_empty() {
        return required(&path.field("resource"), "add the resource, such as `limits.memory`", errors);
    }
    if !huge {
        one_of(resource, &RESOURCES, &path.field("resource"), errors);
    }
    let Some(divisor) = selector.divisor.as_ref().and_then(|divisor| Quantity::of(divisor).ok()) else {
        return;
    };
    let written = divisor.to_string();
    let allowed = match resource {
        _ if divisor.is_zero() => true,
        "limits.cpu" | "requests.cpu" => matches!(written.as_str(), "1" | "1m"),
        _ => matches!(
            written.as_str(),
            "1" | "1k" | "1M" | "1G" | "1T" | "1P" | "1E" | "1Ki" | "1Mi" | "1Gi" | "1Ti" | "1Pi" | "1Ei"
        ),
    };
    if !allowed {
        let remedy =
            if resource.ends_with(".cpu") { "write 1 or 1m" } else { "write 1, or 1 with a suffix: 1Mi, 1M" };
        errors.add(&path.field("divisor"), format!("`{written}` is not a divisor for {resource}"), remedy);
    }
}
