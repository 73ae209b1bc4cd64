//! What a kubelet may say of a pod.

use crate::strategy::causes::Causes;
use crate::strategy::place::Place;

/// Notes what a status may not say: a container that has ended for good runs no more.
pub(super) fn check(new: &Place<'_, '_>, old: &Place<'_, '_>, causes: &mut Causes) {
    causes.subdomain(&new.at("status.nominatedNodeName"));
    let containers = &new.at("status.containerStatuses");
    let spec = new.at("spec");
    let policy = spec.at("restartPolicy").text();
    for was in old.at("status.containerStatuses").items() {
        let name = was.at("name").text();
        let exit_code = was.at("state.terminated.exitCode").number();
        let for_good = match policy {
            "Never" => !was.at("state.terminated").is_absent(),
            "OnFailure" => exit_code == Some(0),
            _ => false,
        };
        let restarts_by_itself = spec.at("containers").items().any(|container| {
            container.at("name").text() == name && !container.at("restartPolicy").is_empty()
        });
        let now = containers.items().find(|status| status.at("name").text() == name);
        if let Some(now) =
            now.filter(|now| for_good && !restarts_by_itself && now.at("state.terminated").is_absent())
        {
            causes.forbidden(&now.at("state"), "may not be transitioned to non-terminated state");
        }
    }
}
