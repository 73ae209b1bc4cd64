//! Validates projected and downward API volumes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, PodSpec, ProjectedVolumeSource, ServiceAccountTokenProjection, VolumeProjection,
};

use super::names::{required, within};
use super::{env, selectors, volumes};
use crate::field_error::FieldErrors;
use crate::path::Path;

/// Pod fields that files can contain, besides single labels and annotations.
const FILE_FIELDS: [&str; 5] =
    ["metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"];
/// Limits for the lifetime of a token in seconds.
const TOKEN_MIN_SECONDS: i64 = 600;
const TOKEN_MAX_SECONDS: i64 = 1 << 32;

pub(super) fn check(
    projected: &ProjectedVolumeSource,
    spec: &PodSpec,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    volumes::mode(projected.default_mode, &path.field("defaultMode"), errors);
    let sources_path = &path.field("sources");
    let mut files = BTreeSet::new();
    for (index, source) in projected.sources.iter().flatten().enumerate() {
        let path = &sources_path.index(index);
        check_source(source, spec, path, errors);
        for file in named_files(source) {
            if !file.is_empty() && !files.insert(file) {
                errors.add(path, format!("two sources write the file `{file}`"), "give each its own path");
            }
        }
    }
}

/// The file paths that a source names. The files that a source creates from the keys of an object are unknown here.
fn named_files(source: &VolumeProjection) -> Vec<&str> {
    let secret = source.secret.iter().flat_map(|secret| secret.items.iter().flatten());
    let config_map = source.config_map.iter().flat_map(|config_map| config_map.items.iter().flatten());
    let downward_api =
        source.downward_api.iter().flat_map(|downward_api| downward_api.items.iter().flatten());
    let bundle = source.cluster_trust_bundle.iter().map(|bundle| bundle.path.as_str());
    (secret.chain(config_map).map(|item| item.path.as_str()))
        .chain(downward_api.map(|file| file.path.as_str()))
        .chain(bundle)
        .collect()
}

fn check_source(source: &VolumeProjection, spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
    let set = [
        source.secret.is_some(),
        source.config_map.is_some(),
        source.downward_api.is_some(),
        source.service_account_token.is_some(),
        source.cluster_trust_bundle.is_some(),
        source.pod_certificate.is_some(),
    ];
    match set.into_iter().filter(|set| *set).count() {
        0 => required(path, "add secret, configMap or downwardAPI", errors),
        1 => {}
        _ => errors.add(path, "there are several sources in one", "make an element of each"),
    }
    if let Some(secret) = &source.secret {
        let path = &path.field("secret");
        if secret.name.is_empty() {
            required(&path.field("name"), "add the name of a Secret", errors);
        }
        volumes::items(secret.items.as_deref(), path, errors);
    }
    if let Some(config_map) = &source.config_map {
        let path = &path.field("configMap");
        if config_map.name.is_empty() {
            required(&path.field("name"), "add the name of a ConfigMap", errors);
        }
        volumes::items(config_map.items.as_deref(), path, errors);
    }
    if let Some(downward_api) = &source.downward_api {
        downward_files(downward_api.items.as_deref(), &path.field("downwardAPI"), errors);
    }
    if let Some(token) = &source.service_account_token {
        check_token(token, spec, &path.field("serviceAccountToken"), errors);
    }
    if let Some(bundle) = &source.cluster_trust_bundle {
        let path = &path.field("clusterTrustBundle");
        volumes::file_path(&bundle.path, &path.field("path"), errors);
        match (&bundle.name, &bundle.signer_name) {
            (None, None) => required(path, "add name or signerName", errors),
            (Some(_), Some(_)) => errors.add(path, "name and signerName are both set", "keep one of them"),
            _ => {}
        }
        if let Some(selector) = &bundle.label_selector {
            selectors::labels(selector, &path.field("labelSelector"), errors);
        }
    }
}

fn check_token(
    token: &ServiceAccountTokenProjection,
    spec: &PodSpec,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    if let Some(seconds) = token.expiration_seconds {
        within(seconds, TOKEN_MIN_SECONDS, TOKEN_MAX_SECONDS, &path.field("expirationSeconds"), errors);
    }
    volumes::file_path(&token.path, &path.field("path"), errors);
    if spec.service_account_name.as_deref().unwrap_or_default().is_empty() {
        let remedy =
            "in a manifest of a node mount a Secret instead; in a cluster add `spec.serviceAccountName`";
        errors.add(path, "the pod has no service account", remedy);
    }
}

/// Validates files of the downward API.
pub(super) fn downward_files(
    files: Option<&[DownwardAPIVolumeFile]>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let items = &path.field("items");
    for (index, file) in files.unwrap_or_default().iter().enumerate() {
        let path = &items.index(index);
        volumes::file_path(&file.path, &path.field("path"), errors);
        volumes::mode(file.mode, &path.field("mode"), errors);
        match (&file.field_ref, &file.resource_field_ref) {
            (None, None) => required(path, "add fieldRef or resourceFieldRef", errors),
            (Some(_), Some(_)) => {
                errors.add(path, "fieldRef and resourceFieldRef are both set", "keep one of them")
            }
            (Some(field), None) => env::field_ref(field, &FILE_FIELDS, &path.field("fieldRef"), errors),
            (None, Some(resource)) => {
                env::resource_field_ref(resource, true, &path.field("resourceFieldRef"), errors);
            }
        }
    }
}
