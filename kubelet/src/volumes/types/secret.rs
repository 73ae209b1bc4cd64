//! `secret` volumes: the keys of a Secret as files in memory.

use k8s_openapi::api::core::v1::{SecretVolumeSource, Volume};

use super::{Line, Reference, ReferenceKind, Setup, VolumeInput, VolumeType, optional, required};
use crate::volumes::content::Content;

pub(super) fn of(volume: &Volume) -> Option<Box<dyn VolumeType + '_>> {
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
