//! `kubelet import`: prints manifests for a Docker Compose file, and reports what they do not express.

mod file;
mod interpolate;
mod model;
mod mounts;
mod pods;
mod scalars;
mod service;
mod settings;
#[cfg(test)]
mod tests;
mod unsupported;

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use api::problem::Problem;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use self::file::ComposeFile;
use self::interpolate::{Variables, env_lines};
use self::model::{FileSource, NamedVolume, Syntax, Text};
use super::args::Import;
use super::print::{note, out, yaml};
use crate::desired::FoundProblem;

/// Exit code if something is not expressed.
const PROBLEMS: u8 = 1;
/// Exit code if the file cannot be read, or is no Compose file.
const UNREADABLE: u8 = 2;
/// Largest size of a ConfigMap or Secret, as in Kubernetes.
const MAX_DATA_BYTES: usize = 1 << 20;

/// Problems and warnings of an import, in the order in which they were found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// What the manifests do not express.
    pub problems: Vec<Problem>,
    /// What the manifests express in another way.
    pub warnings: Vec<Problem>,
}

impl Findings {
    fn problem(&mut self, path: impl Into<String>, what: impl Into<String>, remedy: impl Into<String>) {
        self.problems.push(found(path.into(), what.into(), remedy.into()));
    }

    fn warning(&mut self, path: impl Into<String>, what: impl Into<String>, remedy: impl Into<String>) {
        self.warnings.push(found(path.into(), what.into(), remedy.into()));
    }

    /// Adds a warning, unless there is one with the same path and text.
    fn warn_once(&mut self, path: String, what: String, remedy: String) {
        let warning = found(path, what, remedy);
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// The parsed value, or a problem at this path.
    fn value<T>(&mut self, path: &str, parsed: Result<T, String>) -> Option<T> {
        parsed.map_err(|what| self.problem(path, what, "correct the value")).ok()
    }
}

fn found(path: String, what: String, remedy: String) -> Problem {
    Problem { line: 0, column: 0, path, what, remedy, object: None }
}

/// What the conversion needs beside the services.
pub struct Context<'a> {
    /// Name of the project: a DNS label.
    project: String,
    /// Directory of the Compose file, to which relative paths refer.
    directory: PathBuf,
    /// Directory of the host for named volumes.
    volumes_directory: PathBuf,
    variables: Variables,
    volumes: BTreeMap<String, NamedVolume>,
    configs: BTreeMap<String, FileSource>,
    secrets: BTreeMap<String, FileSource>,
    /// Reads a file.
    read: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
    /// Whether a path is something else than a directory.
    is_file: &'a dyn Fn(&Path) -> bool,
}

impl Context<'_> {
    /// The absolute path of a path in the Compose file, without `.` and `..`.
    fn resolve(&self, path: &str) -> PathBuf {
        let home = self.variables.get("HOME").unwrap_or("/root");
        let path = match path.strip_prefix('~') {
            Some(rest) => PathBuf::from(format!("{home}{rest}")),
            None => self.directory.join(path),
        };
        let mut clean = PathBuf::new();
        for component in path.components() {
            match component {
                Component::CurDir => {}
                Component::ParentDir => {
                    clean.pop();
                }
                other => clean.push(other),
            }
        }
        clean
    }
}

/// The objects for a Compose file.
#[derive(Clone, Debug, Default)]
struct Objects {
    config_maps: Vec<ConfigMap>,
    secrets: Vec<Secret>,
    pods: Vec<Pod>,
    services: Vec<Service>,
}

/// Runs the subcommand.
pub fn run(import: &Import) -> ExitCode {
    let origin = import.file.as_str();
    let unreadable = |why: &dyn std::fmt::Display| {
        note(format_args!("kubelet: {origin} cannot be read: {why}"));
        ExitCode::from(UNREADABLE)
    };
    let bytes = match read_input(origin) {
        Ok(bytes) => bytes,
        Err(error) => return unreadable(&error),
    };
    let directory = match project_directory(origin) {
        Ok(directory) => directory,
        Err(error) => return unreadable(&error),
    };
    let value = match api::decode::value(&bytes) {
        Ok(value) => value.unwrap_or_default(),
        Err(problem) => {
            note(FoundProblem { origin: origin.into(), problem: *problem, last_good: false });
            return ExitCode::from(UNREADABLE);
        }
    };
    let mut findings = Findings::default();
    let process = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let dot_env = match dot_env(import, &directory) {
        Ok(dot_env) => dot_env,
        Err(why) => {
            note(format_args!("kubelet: {why}"));
            return ExitCode::from(UNREADABLE);
        }
    };
    let variables = Variables { process, dot_env };
    let file = match file::read(value, &variables, &mut findings) {
        Ok(file) => file,
        Err(why) => return unreadable(&why),
    };
    let named =
        import.project_name.clone().or_else(|| variables.get("COMPOSE_PROJECT_NAME").map(str::to_owned));
    let of_directory =
        || directory.file_name().map_or("app".into(), |name| name.to_string_lossy().into_owned());
    let project = named.or_else(|| file.name.clone()).unwrap_or_else(of_directory);
    let context = Context {
        project: scalars::label(&project),
        directory,
        volumes_directory: import.volumes_dir.clone(),
        variables,
        volumes: file.volumes.clone(),
        configs: file.configs.clone(),
        secrets: file.secrets.clone(),
        read: &|path| std::fs::read(path),
        is_file: &|path| path.exists() && !path.is_dir(),
    };
    let objects = objects(&file, &context, import, &mut findings);
    let code = report(origin, &bytes, findings);
    match print(&objects) {
        Ok(()) => code,
        Err(error) => super::ended(Err(error)),
    }
}

fn read_input(origin: &str) -> io::Result<Vec<u8>> {
    if origin == "-" {
        let mut bytes = Vec::new();
        io::stdin().lock().take(api::decode::MAX_MANIFEST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    std::fs::read(origin)
}

/// The directory of the file; the working directory for standard input.
fn project_directory(origin: &str) -> io::Result<PathBuf> {
    let parent = Path::new(origin).parent().filter(|parent| origin != "-" && !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).canonicalize()
}

/// The variables of `--env-file`, or of `.env` beside the Compose file if there is one.
fn dot_env(import: &Import, directory: &Path) -> Result<BTreeMap<String, String>, String> {
    let path = import.env_file.clone().unwrap_or_else(|| directory.join(".env"));
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if import.env_file.is_none() && error.kind() == io::ErrorKind::NotFound => {
            return Ok(BTreeMap::new());
        }
        Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
    };
    let process = |name: &str| std::env::var(name).ok();
    let lines = env_lines(&text, &process, false)
        .map_err(|(line, what)| format!("{}:{line}: {what}", path.display()))?;
    Ok(lines.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
}

/// Converts the services whose profiles are active, and the configs and secrets that they use.
fn objects(file: &ComposeFile, context: &Context<'_>, import: &Import, findings: &mut Findings) -> Objects {
    let mut objects = Objects::default();
    let (mut units, mut configs, mut secrets) = (Vec::new(), Vec::new(), Vec::new());
    for (name, service) in &file.services {
        let profiles = service.profiles.clone().unwrap_or_default().0;
        if !profiles.is_empty() && !profiles.iter().any(|profile| import.profile.contains(profile)) {
            let what = format!("the service {name} is left out, because none of its profiles is active");
            let remedy = format!("add --profile {}", profiles[0]);
            findings.warning(format!("services.{name}.profiles"), what, remedy);
            continue;
        }
        units.push(service::convert(name, service, context, findings));
        let used = |mounts: &Option<Vec<Syntax<model::FileMount>>>| -> Vec<String> {
            let name = |mount: &Syntax<model::FileMount>| match mount {
                Syntax::Short(name) => name.clone(),
                Syntax::Long(long) => long.source.clone().unwrap_or_default().0,
            };
            mounts.iter().flatten().map(name).collect()
        };
        configs.extend(used(&service.configs));
        secrets.extend(used(&service.secrets));
    }
    add_links(file, &mut units);
    for (name, source) in context.configs.iter().filter(|(name, _)| configs.contains(name)) {
        let Some(bytes) = content("configs", name, source, context, findings) else { continue };
        let key = scalars::label(name);
        let mut map = ConfigMap { metadata: metadata(context, name), ..ConfigMap::default() };
        match String::from_utf8(bytes) {
            Ok(text) => map.data = Some([(key, text)].into()),
            Err(error) => map.binary_data = Some([(key, ByteString(error.into_bytes()))].into()),
        }
        objects.config_maps.push(map);
    }
    for (name, source) in context.secrets.iter().filter(|(name, _)| secrets.contains(name)) {
        let Some(bytes) = content("secrets", name, source, context, findings) else { continue };
        let data = Some([(scalars::label(name), ByteString(bytes))].into());
        objects.secrets.push(Secret { metadata: metadata(context, name), data, ..Secret::default() });
    }
    if import.pod_per_service {
        (objects.pods, objects.services) = pods::pod_per_service(units, &context.project, findings);
    } else {
        objects.pods = pods::one_pod(units, &context.project, findings);
    }
    objects
}

/// Adds the aliases of `links`, such as `db:database`, to the services that they name.
fn add_links(file: &ComposeFile, units: &mut [service::Unit]) {
    let links = file.services.iter().flat_map(|(_, service)| service.links.iter().flat_map(|links| &links.0));
    for (name, alias) in links.filter_map(|link| link.split_once(':')) {
        let linked = units.iter_mut().find(|unit| unit.name == name);
        if let Some(unit) = linked
            .filter(|unit| scalars::is_host_name(alias) && !unit.aliases.iter().any(|known| known == alias))
        {
            unit.aliases.push(alias.to_owned());
        }
    }
}

fn metadata(context: &Context<'_>, source: &str) -> ObjectMeta {
    ObjectMeta { name: Some(mounts::object_name(&context.project, source)), ..ObjectMeta::default() }
}

/// The content of a config or secret.
fn content(
    field: &str,
    name: &str,
    source: &FileSource,
    context: &Context<'_>,
    findings: &mut Findings,
) -> Option<Vec<u8>> {
    let path = format!("{field}.{name}");
    let bytes = match source {
        FileSource { content: Some(Text(text)), .. } => text.clone().into_bytes(),
        FileSource { environment: Some(Text(variable)), .. } => {
            let value = context.variables.get(variable).map(|value| value.as_bytes().to_vec());
            let value = value.ok_or_else(|| format!("the variable {variable} is not set"));
            findings.value(&path, value)?
        }
        FileSource { file: Some(Text(file)), .. } => {
            let file = context.resolve(file);
            let read = (context.read)(&file);
            findings
                .value(&path, read.map_err(|error| format!("{} cannot be read: {error}", file.display())))?
        }
        FileSource { .. } => {
            let what = "the import does not know the content";
            let object = mounts::object_name(&context.project, name);
            let remedy = format!("write an object {object} with the key {} yourself", scalars::label(name));
            findings.problem(path, what, remedy);
            return None;
        }
    };
    if bytes.len() > MAX_DATA_BYTES {
        findings.problem(path, "the content is larger than 1 MiB", "use a bind mount");
        return None;
    }
    Some(bytes)
}

/// Prints problems and warnings in the order of the file. The exit code says whether there are problems.
fn report(origin: &str, bytes: &[u8], mut findings: Findings) -> ExitCode {
    api::decode::locate(bytes, findings.problems.iter_mut().chain(&mut findings.warnings));
    let code = if findings.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(PROBLEMS) };
    let origin: Arc<str> = origin.into();
    let found = |problem| FoundProblem { origin: origin.clone(), problem, last_good: false };
    let problems = findings.problems.into_iter().map(|problem| (problem.line, found(problem).to_string()));
    let warnings =
        findings.warnings.into_iter().map(|problem| (problem.line, super::check::warning(&found(problem))));
    let mut lines: Vec<(u32, String)> = problems.chain(warnings).collect();
    lines.sort_by_key(|(line, _)| *line);
    lines.iter().for_each(|(_, line)| note(line));
    code
}

/// Prints the objects as one stream of documents.
fn print(objects: &Objects) -> anyhow::Result<()> {
    out(stream(objects)?.as_bytes())
}

fn stream(objects: &Objects) -> Result<String, serde_json::Error> {
    fn add(documents: &mut Vec<String>, objects: &[impl Serialize]) -> Result<(), serde_json::Error> {
        for object in objects {
            documents.push(yaml::document(&yaml::sorted(serde_json::to_value(object)?)));
        }
        Ok(())
    }
    let mut documents = Vec::new();
    add(&mut documents, &objects.config_maps)?;
    add(&mut documents, &objects.secrets)?;
    add(&mut documents, &objects.services)?;
    add(&mut documents, &objects.pods)?;
    Ok(documents.join("---\n"))
}
