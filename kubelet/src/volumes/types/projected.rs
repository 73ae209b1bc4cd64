//! `projected` volumes: files of several sources, in memory.

use k8s_openapi::api::core::v1::{ProjectedVolumeSource, Volume, VolumeProjection};

use super::{Line, Reference, ReferenceKind, Setup, VolumeInput, VolumeType, files, optional, required};
use crate::volumes::content::Content;

/// Default lifetime of a token in seconds.
const TOKEN_SECONDS: i64 = 3600;

pub(super) fn of(volume: &Volume) -> Option<Box<dyn VolumeType + '_>> {
    Some(Box::new(ProjectedVolume(volume.projected.as_ref()?)))
}

struct ProjectedVolume<'a>(&'a ProjectedVolumeSource);

impl VolumeType for ProjectedVolume<'_> {
    fn plan(&self, input: &VolumeInput<'_>, _: Option<u32>) -> Result<Setup, String> {
        let Self(source) = self;
        let mut content = Content::new(input, source.default_mode, source.default_user);
        let filled = source.sources.iter().flatten().try_for_each(|source| project(&mut content, source));
        Ok(Setup::Files { content: filled.and_then(|()| content.finish()), is_secret: true })
    }

    fn references(&self) -> Vec<Reference<'_>> {
        let sources = self.0.sources.iter().flatten().enumerate();
        let references = sources.flat_map(|(index, source)| {
            let path = |field: &str| format!("projected.sources[{index}].{field}.name");
            let map = source.config_map.as_ref().and_then(|map| {
                required(path("configMap"), ReferenceKind::ConfigMap, &map.name, map.optional)
            });
            let secret = source.secret.as_ref().and_then(|secret| {
                required(path("secret"), ReferenceKind::Secret, &secret.name, secret.optional)
            });
            [map, secret].into_iter().flatten()
        });
        references.collect()
    }

    fn describe(&self) -> Vec<Line> {
        let text = "Projected (a volume that contains injected data from multiple sources)";
        let head = std::iter::once(Line::Field("Type", text.to_owned()));
        head.chain(self.0.sources.iter().flatten().flat_map(describe_source)).collect()
    }
}

fn project(content: &mut Content<'_>, source: &VolumeProjection) -> Result<(), String> {
    if let Some(source) = &source.config_map {
        content.config_map(&source.name, source.items.as_deref(), source.optional)
    } else if let Some(source) = &source.secret {
        content.secret(&source.name, source.items.as_deref(), source.optional)
    } else if let Some(source) = &source.downward_api {
        content.downward_api(source.items.as_deref())
    } else if let Some(source) = &source.service_account_token {
        content.token(source)
    } else if source.cluster_trust_bundle.is_some() {
        Err("clusterTrustBundle is not supported: put the certificates into a ConfigMap".to_owned())
    } else if source.pod_certificate.is_some() {
        Err("podCertificate is not supported: put key and certificate into a Secret".to_owned())
    } else {
        Ok(())
    }
}

fn describe_source(source: &VolumeProjection) -> Vec<Line> {
    if let Some(map) = &source.config_map {
        vec![Line::Field("ConfigMapName", map.name.clone()), optional(map.optional)]
    } else if let Some(secret) = &source.secret {
        vec![Line::Field("SecretName", secret.name.clone()), optional(secret.optional)]
    } else if let Some(api) = &source.downward_api {
        let head = std::iter::once(Line::Field("DownwardAPI", "true".to_owned()));
        head.chain(files::items(api.items.as_deref())).collect()
    } else if let Some(token) = &source.service_account_token {
        let seconds = token.expiration_seconds.unwrap_or(TOKEN_SECONDS);
        vec![Line::Field("TokenExpirationSeconds", seconds.to_string())]
    } else {
        Vec::new()
    }
}
