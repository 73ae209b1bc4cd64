//! `configMap` volumes: the keys of a ConfigMap as files.

use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, Volume};

use super::{Line, Reference, ReferenceKind, Setup, VolumeInput, VolumeType, optional, required};
use crate::volumes::content::Content;

pub(super) fn of(volume: &Volume) -> Option<Box<dyn VolumeType + '_>> {
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
