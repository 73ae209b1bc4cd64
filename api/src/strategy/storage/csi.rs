//! The strategies of CSIDrivers, CSINodes and CSIStorageCapacities.

use serde_json::{Value, json};

use crate::dotted::fill_all;
use crate::strategy::causes::Causes;
use crate::strategy::field_value::FieldValue;
use crate::strategy::kind_strategy::{KindStrategy, NO_OP};

/// The strategy of CSIDrivers.
pub(in crate::strategy) static DRIVER: KindStrategy = KindStrategy {
    default: |driver| {
        fill_all(
            driver,
            &[
                ("spec.attachRequired", Value::Bool(true)),
                ("spec.podInfoOnMount", false.into()),
                ("spec.storageCapacity", false.into()),
                ("spec.fsGroupPolicy", "ReadWriteOnceWithFSType".into()),
                ("spec.volumeLifecycleModes", json!(["Persistent"])),
                ("spec.requiresRepublish", false.into()),
                ("spec.seLinuxMount", false.into()),
            ],
        );
    },
    check: |driver, causes| {
        let spec = driver.at("spec");
        causes.any_of(&spec.at("fsGroupPolicy"), &["File", "None", "ReadWriteOnceWithFSType"]);
        for mode in spec.at("volumeLifecycleModes").items() {
            causes.one_of(&mode, &["Ephemeral", "Persistent"]);
        }
        causes.unique(&spec.at("tokenRequests"), "audience");
    },
    immutable: &["spec.attachRequired", "spec.volumeLifecycleModes"],
    ..NO_OP
};

/// The strategy of CSINodes.
pub(in crate::strategy) static NODE: KindStrategy =
    KindStrategy { check: check_node, update: update_node, ..NO_OP };

/// The strategy of CSIStorageCapacities.
pub(in crate::strategy) static CAPACITY: KindStrategy = KindStrategy {
    check: |capacity, causes| {
        if causes.required(&capacity.at("storageClassName"), "") {
            causes.subdomain(&capacity.at("storageClassName"));
        }
        causes.amount(&capacity.at("capacity"));
        causes.amount(&capacity.at("maximumVolumeSize"));
        crate::strategy::selectors::check(&capacity.at("nodeTopology"), causes);
    },
    immutable: &["nodeTopology", "storageClassName"],
    ..NO_OP
};

const NODE_ID_MAX: usize = 256;

fn check_node(node: &FieldValue<'_, '_>, causes: &mut Causes) {
    let drivers = node.at("spec.drivers");
    causes.unique(&drivers, "name");
    for driver in drivers.items() {
        if causes.required(&driver.at("name"), "") {
            causes.subdomain(&driver.at("name"));
        }
        if causes.required(&driver.at("nodeID"), "") {
            causes.no_longer(&driver.at("nodeID"), NODE_ID_MAX);
        }
        causes.not_negative(&driver.at("allocatable.count"));
        for key in driver.at("topologyKeys").items() {
            causes.required(&key, "");
            causes.qualified_name(&key);
        }
        causes.unique(&driver.at("topologyKeys"), "");
    }
}

/// The node ID and the topology keys of a driver are immutable.
fn update_node(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    for was in old.at("spec.drivers").items() {
        for driver in new.at("spec.drivers").items() {
            if driver.at("name").text() == was.at("name").text() {
                causes.immutable(&driver, &was, &["nodeID", "topologyKeys"]);
            }
        }
    }
}
