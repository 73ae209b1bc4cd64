//! Volumes with generated files: `configMap`, `secret` (in memory) and `downwardAPI`.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, DownwardAPIVolumeFile, DownwardAPIVolumeSource, SecretVolumeSource, Volume,
};

use super::{Line, Reference, ReferenceKind, Setup, VolumeInput, VolumeType, optional, required};
use crate::volumes::content::Content;

pub(super) fn config_map(volume: &Volume) -> Option<Box<dyn VolumeType + '_>> {
    Some(Box::new(ConfigMapVolume(volume.config_map.as_ref()?)))
}

struct ConfigMapVolume<'a>(&'a ConfigMapVolumeSource);

impl VolumeType for ConfigMapVolume<'_> {
    fn plan(&self, input: &VolumeInput<'_>, _: Option<u32>) -> Result<Setup, String> {
        let Self(source) = self;
        let mut content = Content::new(input, source.default_mode, source.default_user);
        let filled = content.config_map(&source.name, source.items.as_deref(), source.optional);
        Ok(Setup::Files { content: filled.and_then(|()| content.finish()), is_secret: false })
    }

    fn references(&self) -> Vec<Reference<'_>> {
        let Self(source) = self;
        let map = required("configMap.name", ReferenceKind::ConfigMap, &source.name, source.optional);
        map.into_iter().collect()
    }

    fn describe(&self) -> Vec<Line> {
        vec![
            Line::Field("Type", "ConfigMap (a volume populated by a ConfigMap)".to_owned()),
            Line::Field("Name", self.0.name.clone()),
            optional(self.0.optional),
        ]
    }
}

pub(super) fn secret(volume: &Volume) -> Option<Box<dyn VolumeType + '_>> {
    Some(Box::new(SecretVolume(volume.secret.as_ref()?)))
}

struct SecretVolume<'a>(&'a SecretVolumeSource);

impl SecretVolume<'_> {
    fn name(&self) -> &str {
        self.0.secret_name.as_deref().unwrap_or_default()
    }
}

impl VolumeType for SecretVolume<'_> {
    fn plan(&self, input: &VolumeInput<'_>, _: Option<u32>) -> Result<Setup, String> {
        let Self(source) = self;
        let mut content = Content::new(input, source.default_mode, source.default_user);
        let filled = content.secret(self.name(), source.items.as_deref(), source.optional);
        Ok(Setup::Files { content: filled.and_then(|()| content.finish()), is_secret: true })
    }

    fn references(&self) -> Vec<Reference<'_>> {
        let secret = required("secret.secretName", ReferenceKind::Secret, self.name(), self.0.optional);
        secret.into_iter().collect()
    }

    fn describe(&self) -> Vec<Line> {
        vec![
            Line::Field("Type", "Secret (a volume populated by a Secret)".to_owned()),
            Line::Field("SecretName", self.name().to_owned()),
            optional(self.0.optional),
        ]
    }
}

pub(super) fn downward_api(volume: &Volume) -> Option<Box<dyn VolumeType + '_>> {
    Some(Box::new(DownwardApiVolume(volume.downward_api.as_ref()?)))
}

struct DownwardApiVolume<'a>(&'a DownwardAPIVolumeSource);

impl VolumeType for DownwardApiVolume<'_> {
    fn plan(&self, input: &VolumeInput<'_>, _: Option<u32>) -> Result<Setup, String> {
        let Self(source) = self;
        let mut content = Content::new(input, source.default_mode, source.default_user);
        let filled = content.downward_api(source.items.as_deref());
        Ok(Setup::Files { content: filled.and_then(|()| content.finish()), is_secret: false })
    }

    fn describe(&self) -> Vec<Line> {
        let text = "DownwardAPI (a volume populated by information about the pod)";
        let head = [Line::Field("Type", text.to_owned()), Line::Heading("Items")];
        head.into_iter().chain(items(self.0.items.as_deref())).collect()
    }
}

/// Describes the files, one line each.
pub(super) fn items(items: Option<&[DownwardAPIVolumeFile]>) -> impl Iterator<Item = Line> {
    items.unwrap_or_default().iter().map(|item| {
        let field = item.field_ref.as_ref().map(|field| field.field_path.as_str());
        let resource = || item.resource_field_ref.as_ref().map(|field| field.resource.as_str());
        Line::Item(format!("{} -> {}", field.or_else(resource).unwrap_or_default(), item.path))
    })
}
