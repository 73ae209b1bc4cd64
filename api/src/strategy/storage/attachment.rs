//! VolumeAttachments: which volume is to be attached to which node.

use crate::strategy::rules::{NONE, Rules};

pub(in crate::strategy) static RULES: Rules = Rules {
    check: |attachment, causes| {
        let spec = attachment.at("spec");
        causes.required(&spec.at("attacher"), "");
        causes.required(&spec.at("nodeName"), "");
        let source = spec.at("source");
        let (name, inline) = (source.at("persistentVolumeName"), source.at("inlineVolumeSpec"));
        match (name.is_empty(), inline.is_absent()) {
            (true, true) => causes
                .missing(&source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"),
            (false, false) => {
                causes.invalid(
                    &source,
                    "must specify exactly one of inlineVolumeSpec and persistentVolumeName",
                );
            }
            _ => {}
        }
    },
    frozen: &["spec"],
    ..NONE
};
