//! Creates and starts sandboxes and containers.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Container, Pod};

use super::apply::{ActionContext, ActionError, refresh};
use super::hooks;
use crate::disk;
use crate::images::keyring::Keyring;
use crate::images::{self, Progress, Pulled};
use crate::observed::{Sandbox, State};
use crate::plan;
use crate::runtime::{self, Image, Inspected};
use crate::spec::{self, ConfigError, ContainerInput, Environment};

/// Interval of progress events for a long image pull.
const PROGRESS_EVERY: Duration = Duration::from_secs(30);

/// Creates the pod's sandbox.
pub(super) async fn sandbox(job: &ActionContext, attempt: u32) -> Result<(), ActionError> {
    let deps = &job.deps;
    let facts = deps.facts.borrow().clone();
    let mut wanted = spec::sandbox(&job.assignment.pod.pod, &facts, attempt, &deps.sandbox_image)
        .map_err(|e| ActionError::persistent("ContainerCreating", e.reason, e.message))?;
    wanted.identity.hash.clone_from(&job.hashes.sandbox);
    for note in spec::notes(&job.assignment.pod.pod, &facts) {
        job.warn_pod(note.reason, note.message);
    }
    let made = deps.runtime.create_sandbox(&wanted).await.map_err(sandbox_fault)?;
    let id = made.id.clone();
    deps.pleg.put(Inspected::Sandbox(wanted.identity, made));
    confirm(job, &id)
}

/// Checks that the pod cache contains what was created. Otherwise the plan would create it again and again.
fn confirm(job: &ActionContext, id: &str) -> Result<(), ActionError> {
    let seen = job.deps.pleg.pod(&job.uid);
    let mut ids = seen.containers.iter().map(|c| &c.id).chain(seen.sandboxes.iter().map(|s| &s.id));
    if ids.any(|seen| seen == id) {
        return Ok(());
    }
    let message =
        format!("container {id} was created but no longer exists; check whether another program removed it");
    Err(ActionError::transient("ContainerCreating", "FailedSync", message))
}

pub(super) async fn start_sandbox(job: &ActionContext, id: &str) -> Result<(), ActionError> {
    let result = job.deps.runtime.start(id).await;
    job.deps.metrics.container_started("pod_sandbox", result.is_ok());
    match result {
        Ok(started) => {
            for omitted in &started.omitted {
                tracing::debug!(pod = job.full_name(), %omitted, "the engine refused a part of a sandbox");
            }
            settle(job, id, started.seen);
            Ok(())
        }
        Err(error) => {
            // A sandbox that does not start is useless; the next attempt creates a new one.
            if let runtime::Error::Refused { .. } = error {
                job.deps.runtime.remove(id).await?;
                job.deps.pleg.forget(&job.uid, id);
            }
            Err(sandbox_fault(error))
        }
    }
}

fn sandbox_fault(error: runtime::Error) -> ActionError {
    let message = format!("Failed to create pod sandbox: {error}");
    match error {
        runtime::Error::Refused { .. } => {
            ActionError::persistent("ContainerCreating", "FailedCreatePodSandBox", message)
        }
        runtime::Error::Unreachable { .. } | runtime::Error::NotFound { .. } | runtime::Error::Network(_) => {
            ActionError::transient("ContainerCreating", "FailedCreatePodSandBox", message)
        }
    }
}

/// Pulls the image and checks everything that the container refers to, without creating it.
pub(super) async fn prepare(job: &ActionContext, name: &str) -> Result<(), ActionError> {
    let (Some(container), Some(sandbox)) = (find(&job.assignment.pod.pod, name), job.observed.sandbox())
    else {
        return Ok(()); // The state has changed since the action was planned; the next plan accounts for it.
    };
    let image = ensure_image(job, &container).await?;
    let attempt = job.observed.newest(name).map_or(0, |newest| newest.attempt + 1);
    describe(job, &container, sandbox, &image, attempt, Duration::ZERO).await.map(drop)
}

/// Ensures the image, and creates the container.
pub(super) async fn container(
    job: &ActionContext,
    name: &str,
    attempt: u32,
    back_off: Duration,
) -> Result<(), ActionError> {
    let deps = &job.deps;
    let pod = &job.assignment.pod.pod;
    let (Some(container), Some(sandbox)) = (find(pod, name), job.observed.sandbox()) else {
        return Ok(()); // The state has changed since the action was planned; the next plan accounts for it.
    };
    let image = ensure_image(job, &container).await?;
    let made = describe(job, &container, sandbox, &image, attempt, back_off).await?;
    let (identity, wanted) = made;
    let created = match deps.runtime.create_container(&wanted).await {
        Ok(created) => created,
        Err(error @ runtime::Error::Refused { .. }) => {
            return Err(ActionError::persistent("CreateContainerError", "Failed", format!("Error: {error}")));
        }
        Err(error) => return Err(error.into()),
    };
    job.normal(name, "Created", format!("Created container: {name}"));
    let id = created.id.clone();
    deps.pleg.put(Inspected::Container(identity, created));
    confirm(job, &id)
}

async fn describe(
    job: &ActionContext,
    container: &Container,
    sandbox: &Sandbox,
    image: &Image,
    attempt: u32,
    back_off: Duration,
) -> Result<(runtime::Identity, runtime::ContainerSpec), ActionError> {
    let deps = &job.deps;
    let pod = &job.assignment.pod.pod;
    let name = &container.name;
    let facts = deps.facts.borrow().clone();
    let sources = spec::env::Sources {
        pod,
        facts: &facts,
        pod_ips: facts.pod_ips(pod, Some(sandbox)),
        references: &job.assignment.references,
    };
    let environment = Environment::of(&sources, container).map_err(config_fault)?;
    for note in &environment.notes {
        job.warn(name, note.reason, note.message.clone());
    }
    let mounts =
        deps.volumes.container_mounts(&job.wanted_volumes(&facts), container, &environment).await.map_err(
            |e| ActionError::persistent("CreateContainerConfigError", "Failed", format!("Error: {e}")),
        )?;
    let termination_file = termination_file(job, name, attempt).await?;
    let profile = seccomp_profile(job, container).await?;
    let input = ContainerInput {
        pod,
        container,
        target: target(job, name)?,
        facts: &facts,
        environment: &environment,
        sandbox,
        image,
        mounts,
        attempt,
        back_off,
        termination_file: &termination_file,
        seccomp: profile.as_deref(),
    };
    let mut wanted = spec::container(input).map_err(config_fault)?;
    if let Some(hash) = job.hashes.container(name) {
        wanted.identity.hash.clone_from(hash);
    }
    Ok((wanted.identity.clone(), wanted))
}

async fn termination_file(job: &ActionContext, name: &str, attempt: u32) -> Result<PathBuf, ActionError> {
    let made = job.deps.volumes.termination_file(&job.uid, name, attempt).await;
    made.map_err(|error| ActionError::transient("CreateContainerError", "Failed", format!("Error: {error}")))
}

/// The seccomp profile that the container names, from `<root-dir>/seccomp`.
async fn seccomp_profile(job: &ActionContext, container: &Container) -> Result<Option<String>, ActionError> {
    let Some(file) = spec::seccomp_file(&job.assignment.pod.pod, container) else { return Ok(None) };
    let path = job.deps.root_dir.join("seccomp").join(file);
    let (read, path) = disk::run(move || (std::fs::read_to_string(&path), path)).await;
    read.map(Some).map_err(|error| {
        let message = format!("Error: cannot read the seccomp profile {}: {error}", path.display());
        ActionError::persistent("CreateContainerConfigError", "Failed", message)
    })
}

fn config_fault(error: ConfigError) -> ActionError {
    ActionError::persistent("CreateContainerConfigError", "Failed", format!("Error: {}", error.message))
}

/// Ensures the container's image according to its pull policy.
async fn ensure_image(job: &ActionContext, container: &Container) -> Result<Image, ActionError> {
    let name = container.image.as_deref().unwrap_or_default();
    let policy = images::Policy::of(container.image_pull_policy.as_deref().unwrap_or_default());
    let started_at = Instant::now();
    let next = AtomicU64::new(0);
    let pulling = |progress: &Progress| {
        let seconds = started_at.elapsed().as_secs();
        if seconds >= next.load(Ordering::Relaxed) {
            let so_far = if progress.is_beginning() { String::new() } else { format!(": {progress}") };
            job.normal(&container.name, "Pulling", format!("Pulling image \"{name}\"{so_far}"));
            next.store(seconds + PROGRESS_EVERY.as_secs(), Ordering::Relaxed);
        }
    };
    match job.deps.images.ensure(name, policy, &pull_keys(job), &pulling).await {
        Ok((image, Pulled::Present)) => {
            let message = format!("Container image \"{name}\" already present on machine");
            job.normal(&container.name, "Pulled", message);
            Ok(image)
        }
        Ok((image, Pulled::Fetched)) => {
            let message = format!(
                "Successfully pulled image \"{name}\" in {:.3?}. Image size: {} bytes.",
                started_at.elapsed(),
                image.size_bytes
            );
            job.normal(&container.name, "Pulled", message);
            Ok(image)
        }
        Err(error) => {
            let message = format!("Failed to pull image \"{name}\": {error}");
            job.warn(&container.name, "Failed", format!("Error: {}", error.reason()));
            Err(match error.reason() {
                plan::ERR_IMAGE_PULL => ActionError {
                    first_wait: Duration::from_secs(10),
                    longest_wait: Duration::from_secs(300),
                    repeats: true,
                    ..ActionError::persistent(plan::ERR_IMAGE_PULL, "Failed", message)
                },
                reason => ActionError::persistent(reason, "Failed", message),
            })
        }
    }
}

/// The credentials in the pod's pull secrets. Missing or unreadable Secrets are reported, and the pull continues
/// without them.
fn pull_keys(job: &ActionContext) -> Keyring {
    let pod = &job.assignment.pod.pod;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let warn = |message: String| job.warn_pod("FailedToRetrieveImagePullSecret", message);
    let mut secrets = Vec::new();
    for reference in plan::spec(pod).image_pull_secrets.iter().flatten() {
        match job.assignment.references.secret(namespace, &reference.name) {
            Some(secret) => secrets.push(secret.as_ref()),
            None => warn(format!(
                "Secret {namespace}/{} does not exist; images are pulled without it",
                reference.name
            )),
        }
    }
    let (keyring, problems) = Keyring::of_secrets(secrets);
    for problem in problems {
        warn(format!("{problem}; images are pulled without it"));
    }
    keyring
}

/// Starts a container and runs its postStart hook.
pub(super) async fn start_container(job: &ActionContext, name: &str, id: &str) -> Result<(), ActionError> {
    // A reboot between the creation and the start of a container empties the memory file system of its termination message.
    if let Some(created) = job.observed.newest(name).filter(|container| container.id == id) {
        termination_file(job, name, created.attempt).await?;
    }
    let result = job.deps.runtime.start(id).await;
    let pod = &job.assignment.pod.pod;
    let kind = if plan::inits(pod).iter().any(|init| init.name == name) {
        "init_container"
    } else if plan::ephemerals(pod).iter().any(|ephemeral| ephemeral.name == name) {
        "ephemeral_container"
    } else {
        "container"
    };
    job.deps.metrics.container_started(kind, result.is_ok());
    let started = match result {
        Ok(started) => started,
        Err(error @ runtime::Error::Refused { .. }) => {
            // The engine records the failure in the container; an inspection shows it as an exit.
            job.warn(name, "Failed", format!("Error: {error}"));
            refresh(job, id).await?;
            let seen = job.deps.pleg.pod(&job.uid);
            let is_exit = seen.newest(name).is_some_and(|c| matches!(c.state, State::Exited(_)));
            let fault = ActionError::persistent("RunContainerError", "Failed", error.to_string());
            return if is_exit { Ok(()) } else { Err(fault) };
        }
        Err(error) => return Err(error.into()),
    };
    for omitted in &started.omitted {
        let message = format!("the engine refuses {omitted}: container {name} runs without it");
        job.warn(name, "FeatureOmitted", message);
    }
    let started_id = settle(job, id, started.seen);
    job.normal(name, "Started", format!("Started container {name}"));
    let pod = &job.assignment.pod.pod;
    let container = find(pod, name);
    let hook = container.as_ref().and_then(|c| c.lifecycle.as_ref()).and_then(|l| l.post_start.as_ref());
    if let Some(hook) = hook
        && let Err(message) = hooks::run(job, name, &started_id, hook, None).await
    {
        job.warn(name, "FailedPostStartHook", format!("PostStartHook failed: {message}"));
        super::stop::forced(job, name, &started_id, "its postStart hook failed").await?;
    }
    Ok(())
}

/// Stores the result of a start in the pod cache. Returns the engine id, which changes if the engine recreated the container.
fn settle(job: &ActionContext, id: &str, seen: Inspected) -> String {
    let running = match &seen {
        Inspected::Sandbox(_, sandbox) => sandbox.id.clone(),
        Inspected::Container(_, container) => container.id.clone(),
    };
    if running != id {
        job.deps.pleg.forget(&job.uid, id);
    }
    job.deps.pleg.put(seen);
    running
}

/// The container of this name: main, init, sidecar or ephemeral.
pub(super) fn find<'a>(pod: &'a Pod, name: &str) -> Option<Cow<'a, Container>> {
    let regular = plan::spec(pod).containers.iter().chain(plan::inits(pod)).find(|c| c.name == name);
    let ephemeral = || plan::ephemerals(pod).iter().find(|c| c.name == name).map(plan::as_container);
    regular.map(Cow::Borrowed).or_else(|| ephemeral().map(Cow::Owned))
}

/// Engine id of the target container of an ephemeral container, or `None` if it names none.
fn target<'a>(job: &'a ActionContext, name: &str) -> Result<Option<&'a str>, ActionError> {
    let ephemeral = plan::ephemerals(&job.assignment.pod.pod).iter().find(|c| c.name == name);
    let Some(wanted) = ephemeral.and_then(|c| c.target_container_name.as_deref()).filter(|t| !t.is_empty())
    else {
        return Ok(None);
    };
    let running = job.observed.newest(wanted).filter(|c| c.state.is_running());
    running.map(|c| Some(c.id.as_str())).ok_or_else(|| {
        let message = format!("Error: the target container {wanted} of {name} is not running");
        ActionError::persistent("CreateContainerError", "Failed", message)
    })
}
