//! Diagnostics of a node, printed when a wait times out.

use std::fmt::Write;

use crate::World;

/// Returns the node's pods, events, containers, and the end of the kubelet's log.
pub async fn report(world: &World) -> String {
    let mut text = String::new();
    for verb in [&["get", "pods", "-A", "-o", "wide"][..], &["get", "events", "-A"]] {
        let output = world.kubelet(verb).await;
        let _ = write!(text, "--- kubelet {}\n{}{}", verb.join(" "), output.stdout, output.stderr);
    }
    let _ = writeln!(text, "--- containers");
    for container in world.containers().await {
        let _ = writeln!(text, "{:8} {} {}", container.state, &container.id[..12], container.engine_name);
        if !container.is_running() {
            // The container may have been removed meanwhile.
            let inspected = world.engine.docker().inspect_container(&container.id, None).await;
            let state = inspected.map(|found| found.state.unwrap_or_default());
            let state_text = state.map(|state| format!("code {:?}, {:?}", state.exit_code, state.error));
            let _ = writeln!(text, "         {}", state_text.unwrap_or_else(|error| error.to_string()));
        }
    }
    let _ = write!(text, "--- end of the kubelet's log\n{}\n---", world.log_tail());
    text
}
