//! The strategy of PersistentVolumeClaims.

use crate::dotted::{fill, set};
use crate::quantity::Quantity;
use crate::strategy::causes::Causes;
use crate::strategy::field_value::FieldValue;
use crate::strategy::kind_strategy::{KindStrategy, NO_OP};
use crate::strategy::{Json, Part, selectors};

pub(in crate::strategy) static STRATEGY: KindStrategy =
    KindStrategy { default, prepare, check, update, status, ..NO_OP };

pub(super) const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
pub(super) const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const ONLY: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
const REQUEST: &str = "spec.resources.requests.storage";

/// Sets the defaults of a claim or a claim template.
pub(in crate::strategy) fn default(claim: &mut Json) {
    fill(claim, "spec.volumeMode", "Filesystem");
}

fn prepare(claim: &mut Json, before: Option<&Json>, part: &Part<'_>) {
    if before.is_none() && *part == Part::Main {
        set(claim, "status.phase", Some("Pending".into()));
    }
}

fn check(claim: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = claim.at("spec");
    let modes = spec.at("accessModes");
    if causes.required(&modes, "at least 1 access mode is required") {
        modes.items().for_each(|mode| causes.one_of(&mode, &ACCESS_MODES));
    }
    if modes.len() > 1 && modes.items().any(|mode| mode.text() == "ReadWriteOncePod") {
        causes.forbidden(&modes, "may not use ReadWriteOncePod with other access modes");
    }
    selectors::check(&spec.at("selector"), causes);
    let size = spec.at("resources.requests.storage");
    if causes.required(&size, "") && size.text().parse::<Quantity>().is_ok_and(|size| size <= Quantity::ZERO)
    {
        causes.invalid(&size, "must be greater than zero");
    }
    causes.subdomain(&spec.at("storageClassName"));
    causes.any_of(&spec.at("volumeMode"), &VOLUME_MODES);
    if !spec.at("dataSource").is_absent() {
        causes.required(&spec.at("dataSource.name"), "");
        causes.required(&spec.at("dataSource.kind"), "");
    }
}

fn update(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    let is_bound = old.at("status.phase").text() == "Bound";
    let lasting = |claim: &FieldValue<'_, '_>| {
        let mut spec = claim.at("spec").fields().cloned().unwrap_or_default();
        if is_bound {
            set(&mut spec, "resources.requests.storage", None);
            spec.remove("volumeAttributesClassName");
        }
        // The volume and the storage class can be set once.
        for field in ["volumeName", "storageClassName"] {
            if old.at("spec").at(field).is_absent() {
                spec.remove(field);
            }
        }
        spec
    };
    if lasting(new) != lasting(old) {
        causes.forbidden(&new.at("spec"), ONLY);
    }
    let amount = |place: &FieldValue<'_, '_>| place.text().parse::<Quantity>().unwrap_or_default();
    let (wanted, was) = (amount(&new.at(REQUEST)), amount(&old.at(REQUEST)));
    if is_bound && wanted < was && wanted <= amount(&old.at("status.capacity.storage")) {
        causes.forbidden(&new.at(REQUEST), "field can not be less than status.capacity");
    }
}

fn status(new: &FieldValue<'_, '_>, _old: &FieldValue<'_, '_>, causes: &mut Causes) {
    causes.any_of(&new.at("status.phase"), &["Pending", "Bound", "Lost"]);
    for (_, amount) in new.at("status.capacity").entries() {
        causes.amount(&amount);
    }
}
