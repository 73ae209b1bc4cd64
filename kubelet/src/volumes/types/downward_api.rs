//! `downwardAPI` volumes: fields of the pod as files.

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, DownwardAPIVolumeSource, Volume};

use super::{Line, Setup, VolumeInput, VolumeType};
use crate::volumes::content::Content;

pub(super) fn of(volume: &Volume) -> Option<Box<dyn VolumeType + '_>> {
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
