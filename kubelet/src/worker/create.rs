//! Makes and starts sandboxes and containers.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Container, Pod};

use super::apply::{Fault, Job, look};
use super::hooks;
use crate::disk;
use crate::images::keyring::Keyring;
use crate::images::{self, Progress, Pulled};
use crate::observed::{Sandbox, State};
use crate::plan;
use crate::runtime::{self, Image, Seen};
use crate::spec::{self, ConfigError, ContainerInput, Environment};

/// How often a long pull tells how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(30);

/// Makes the pod's sandbox.
pub(super) async fn sandbox(job: &Job, attempt: u32) -> Result<(), Fault> {
    let tools = &job.tools;
    let facts = tools.facts.borrow().clone();
    let mut wanted = spec::sandbox(&job.assignment.pod.pod, &facts, attempt, &tools.sandbox_image)
        .map_err(|e| Fault::lasting("ContainerCreating", e.reason, e.message))?;
    wanted.identity.hash.clone_from(&job.hashes.sandbox);
    for note in spec::notes(&job.assignment.pod.pod, &facts) {
        job.warn_pod(note.reason, note.message);
    }
    let made = tools.runtime.create_sandbox(&wanted).await.map_err(sandbox_fault)?;
    let id = made.id.clone();
    tools.observer.put(Seen::Sandbox(wanted.identity, made));
    confirm(job, &id)
}

/// What was made must show, or it would be made again at once and for ever.
fn confirm(job: &Job, id: &str) -> Result<(), Fault> {
    let seen = job.tools.observer.pod(&job.uid);
    let mut ids = seen.containers.iter().map(|c| &c.id).chain(seen.sandboxes.iter().map(|s| &s.id));
    if ids.any(|seen| seen == id) {
        return Ok(());
    }
    let message = format!("container {id} was made and is not there: was it removed by somebody else?");
    Err(Fault::passing("ContainerCreating", "FailedSync", message))
}

/// Starts it.
pub(super) async fn start_sandbox(job: &Job, id: &str) -> Result<(), Fault> {
    let result = job.tools.runtime.start(id).await;
    job.tools.metrics.container_started("pod_sandbox", result.is_ok());
    match result {
        Ok(started) => {
            for without in &started.without {
                tracing::debug!(pod = %job.uid, %without, "the engine refused a part of a sandbox");
            }
            settle(job, id, started.seen);
            Ok(())
        }
        Err(error) => {
            // A sandbox that would not start is of no use: the next try makes a new one.
            if let runtime::Error::Refused { .. } = error {
                job.tools.runtime.remove(id).await?;
                job.tools.observer.forget(&job.uid, id);
            }
            Err(sandbox_fault(error))
        }
    }
}

fn sandbox_fault(error: runtime::Error) -> Fault {
    let message = format!("Failed to create pod sandbox: {error}");
    match error {
        runtime::Error::Refused { .. } => {
            Fault::lasting("ContainerCreating", "FailedCreatePodSandBox", message)
        }
        runtime::Error::Unreachable { .. } | runtime::Error::NotFound { .. } | runtime::Error::Network(_) => {
            Fault::passing("ContainerCreating", "FailedCreatePodSandBox", message)
        }
    }
}

/// Makes sure of the image and of everything else the container refers to, and makes nothing.
pub(super) async fn prepare(job: &Job, name: &str) -> Result<(), Fault> {
    let (Some(container), Some(sandbox)) = (find(&job.assignment.pod.pod, name), job.observed.sandbox())
    else {
        return Ok(()); // The plan was of another moment; the next one knows better.
    };
    let image = ensure_image(job, &container).await?;
    let attempt = job.observed.newest(name).map_or(0, |newest| newest.attempt + 1);
    describe(job, &container, sandbox, &image, attempt, Duration::ZERO).await.map(drop)
}

/// Makes sure of the image and makes the container.
pub(super) async fn container(job: &Job, name: &str, attempt: u32, back_off: Duration) -> Result<(), Fault> {
    let tools = &job.tools;
    let pod = &job.assignment.pod.pod;
    let (Some(container), Some(sandbox)) = (find(pod, name), job.observed.sandbox()) else {
        return Ok(()); // The plan was of another moment; the next one knows better.
    };
    let image = ensure_image(job, &container).await?;
    let made = describe(job, &container, sandbox, &image, attempt, back_off).await?;
    let (identity, wanted) = made;
    let created = match tools.runtime.create_container(&wanted).await {
        Ok(created) => created,
        Err(error @ runtime::Error::Refused { .. }) => {
            return Err(Fault::lasting("CreateContainerError", "Failed", format!("Error: {error}")));
        }
        Err(error) => return Err(error.into()),
    };
    job.normal(name, "Created", format!("Created container: {name}"));
    let id = created.id.clone();
    tools.observer.put(Seen::Container(identity, created));
    confirm(job, &id)
}

async fn describe(
    job: &Job,
    container: &Container,
    sandbox: &Sandbox,
    image: &Image,
    attempt: u32,
    back_off: Duration,
) -> Result<(runtime::Identity, runtime::ContainerSpec), Fault> {
    let tools = &job.tools;
    let pod = &job.assignment.pod.pod;
    let name = &container.name;
    let facts = tools.facts.borrow().clone();
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
        tools
            .volumes
            .container_mounts(&job.wanted_volumes(&facts), container, &environment)
            .await
            .map_err(|e| Fault::lasting("CreateContainerConfigError", "Failed", format!("Error: {e}")))?;
    let termination_file = tools
        .volumes
        .termination_file(&job.uid, name, attempt)
        .await
        .map_err(|e| Fault::passing("CreateContainerError", "Failed", format!("Error: {e}")))?;
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

/// The seccomp profile the container names, from `<root-dir>/seccomp`.
async fn seccomp_profile(job: &Job, container: &Container) -> Result<Option<String>, Fault> {
    let Some(file) = spec::seccomp_file(&job.assignment.pod.pod, container) else { return Ok(None) };
    let path = job.tools.root_dir.join("seccomp").join(file);
    let (read, path) = disk::run(move || (std::fs::read_to_string(&path), path)).await;
    read.map(Some).map_err(|error| {
        let message = format!("Error: cannot read the seccomp profile {}: {error}", path.display());
        Fault::lasting("CreateContainerConfigError", "Failed", message)
    })
}

fn config_fault(error: ConfigError) -> Fault {
    Fault::lasting("CreateContainerConfigError", "Failed", format!("Error: {}", error.message))
}

/// The container's image, pulled when its policy asks for it.
async fn ensure_image(job: &Job, container: &Container) -> Result<Image, Fault> {
    let name = container.image.as_deref().unwrap_or_default();
    let policy = images::Policy::of(container.image_pull_policy.as_deref().unwrap_or_default());
    let begun = Instant::now();
    let next = AtomicU64::new(0);
    let pulling = |progress: &Progress| {
        let seconds = begun.elapsed().as_secs();
        if seconds >= next.load(Ordering::Relaxed) {
            let so_far = if progress.is_beginning() { String::new() } else { format!(": {progress}") };
            job.normal(&container.name, "Pulling", format!("Pulling image \"{name}\"{so_far}"));
            next.store(seconds + PROGRESS_EVERY.as_secs(), Ordering::Relaxed);
        }
    };
    match job.tools.images.ensure(name, policy, &pull_keys(job), &pulling).await {
        Ok((image, Pulled::Present)) => {
            let message = format!("Container image \"{name}\" already present on machine");
            job.normal(&container.name, "Pulled", message);
            Ok(image)
        }
        Ok((image, Pulled::Fetched)) => {
            let message = format!(
                "Successfully pulled image \"{name}\" in {:.3?}. Image size: {} bytes.",
                begun.elapsed(),
                image.size_bytes
            );
            job.normal(&container.name, "Pulled", message);
            Ok(image)
        }
        Err(error) => {
            let message = format!("Failed to pull image \"{name}\": {error}");
            job.warn(&container.name, "Failed", format!("Error: {}", error.reason()));
            Err(match error.reason() {
                plan::ERR_IMAGE_PULL => Fault {
                    first_wait: Duration::from_secs(10),
                    longest_wait: Duration::from_secs(300),
                    repeats: true,
                    ..Fault::lasting(plan::ERR_IMAGE_PULL, "Failed", message)
                },
                reason => Fault::lasting(reason, "Failed", message),
            })
        }
    }
}

/// The credentials in the pod's pull secrets; one that is missing or cannot be read is told, and the pull goes on.
fn pull_keys(job: &Job) -> Keyring {
    let pod = &job.assignment.pod.pod;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let warn = |message: String| job.warn_pod("FailedToRetrieveImagePullSecret", message);
    let mut secrets = Vec::new();
    for reference in plan::spec(pod).image_pull_secrets.iter().flatten() {
        match job.assignment.references.secret(namespace, &reference.name) {
            Some(secret) => secrets.push(secret.as_ref()),
            None => warn(format!(
                "Secret {namespace}/{} is not there; images are pulled without it",
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
pub(super) async fn start_container(job: &Job, name: &str, id: &str) -> Result<(), Fault> {
    let result = job.tools.runtime.start(id).await;
    let pod = &job.assignment.pod.pod;
    let kind = if plan::inits(pod).iter().any(|init| init.name == name) {
        "init_container"
    } else if plan::ephemerals(pod).iter().any(|ephemeral| ephemeral.name == name) {
        "ephemeral_container"
    } else {
        "container"
    };
    job.tools.metrics.container_started(kind, result.is_ok());
    let started = match result {
        Ok(started) => started,
        Err(error @ runtime::Error::Refused { .. }) => {
            // The engine has written the failure into the container: a look turns it into an exit.
            job.warn(name, "Failed", format!("Error: {error}"));
            look(job, id).await?;
            let seen = job.tools.observer.pod(&job.uid);
            let is_exit = seen.newest(name).is_some_and(|c| matches!(c.state, State::Exited(_)));
            let fault = Fault::lasting("RunContainerError", "Failed", error.to_string());
            return if is_exit { Ok(()) } else { Err(fault) };
        }
        Err(error) => return Err(error.into()),
    };
    for without in &started.without {
        let message = format!("the engine refuses {without}: container {name} runs without it");
        job.warn(name, "DoneWithout", message);
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

/// Takes over what a start has seen; the id changes when the engine made it anew. Gives the id that runs.
fn settle(job: &Job, id: &str, seen: Seen) -> String {
    let running = match &seen {
        Seen::Sandbox(_, sandbox) => sandbox.id.clone(),
        Seen::Container(_, container) => container.id.clone(),
    };
    if running != id {
        job.tools.observer.forget(&job.uid, id);
    }
    job.tools.observer.put(seen);
    running
}

/// The container of that name, wherever it stands in the pod.
pub(super) fn find<'a>(pod: &'a Pod, name: &str) -> Option<Cow<'a, Container>> {
    let lasting = plan::spec(pod).containers.iter().chain(plan::inits(pod)).find(|c| c.name == name);
    let ephemeral = || plan::ephemerals(pod).iter().find(|c| c.name == name).map(plan::as_container);
    lasting.map(Cow::Borrowed).or_else(|| ephemeral().map(Cow::Owned))
}

/// The engine's id of the container whose processes an ephemeral one is to see; `None` where it names none.
fn target<'a>(job: &'a Job, name: &str) -> Result<Option<&'a str>, Fault> {
    let ephemeral = plan::ephemerals(&job.assignment.pod.pod).iter().find(|c| c.name == name);
    let Some(wanted) = ephemeral.and_then(|c| c.target_container_name.as_deref()).filter(|t| !t.is_empty())
    else {
        return Ok(None);
    };
    let running = job.observed.newest(wanted).filter(|c| c.state.is_running());
    running.map(|c| Some(c.id.as_str())).ok_or_else(|| {
        let message =
            format!("Error: the target container {wanted} does not run, whose processes {name} is to see");
        Fault::lasting("CreateContainerError", "Failed", message)
    })
}
