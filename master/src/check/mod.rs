//! `master check`: diagnostics of a cluster. Each finding has a cause and a remedy.
//!
//! The command reads the data directory of a local master, connects to the API server of a kubeconfig, and lists
//! objects like any client. Pure functions derive the findings, one file per subject.

mod connection;
mod finding;
mod here;
mod objects;
mod output;
mod server;
#[cfg(test)]
mod tests;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use apiserver::VERSION;
use jiff::Timestamp;

pub use self::connection::{Answer, Question, check as connection};
use self::finding::Finding;
pub use self::finding::Report;
use self::here::Here;
use self::here::certificates::{self, Read, Use};
use self::objects::World;
pub use self::output::{as_json, as_text};
use self::server::Responses;
use self::server::refusal::{self, Refusal, Way};
use self::server::version::Version;
use crate::controllers::{Remote, connect};
use crate::data_dir::DataDir;
use crate::kubeconfig::Kubeconfig;
use crate::pki::{self, Validity};

/// Maximum size of a kubeconfig that is read, in bytes. One with certificates has about 10 KiB.
const MOST_KUBECONFIG_BYTES: u64 = 1 << 20;

/// The cluster that `master check` examines.
#[derive(Clone, Debug)]
pub struct Target {
    /// The kubeconfig. `None` for the one in the data directory.
    pub kubeconfig: Option<PathBuf>,
    /// The data directory of a local master.
    pub data_dir: Option<PathBuf>,
}

/// The kubeconfig of a target.
fn kubeconfig_of(target: &Target) -> Result<Kubeconfig, Box<Finding>> {
    let here = target.data_dir.as_deref().map(here::look);
    kubeconfig(&kubeconfig_file(target), here.as_ref())
}

/// The path of the kubeconfig of a target.
fn kubeconfig_file(target: &Target) -> PathBuf {
    let own = target.data_dir.as_deref().map(|directory| DataDir::at(directory).admin_kubeconfig());
    target.kubeconfig.clone().or(own).unwrap_or_default()
}

/// Runs all checks of the local files, the API server and the objects.
pub async fn run(target: &Target) -> Report {
    let here = target.data_dir.as_deref().map(here::look);
    let file = kubeconfig_file(target);
    let seen = match kubeconfig(&file, here.as_ref()) {
        Err(finding) => Err(finding),
        Ok(config) => {
            let responses = server::knock(&Remote::from(&config)).await;
            Ok((config, responses))
        }
    };
    let responses = seen.as_ref().ok().and_then(|(_, responses)| responses.as_ref().ok());
    let now = responses.and_then(|responses| responses.clock.as_ref()?.time()).unwrap_or_else(Timestamp::now);
    let mut report = Report::default();
    let answers = match &seen {
        Err(finding) => {
            report.add("kubeconfig", vec![(**finding).clone()]);
            None
        }
        Ok((config, responses)) => {
            let way = way(&file, config, here.as_ref());
            listen(&mut report, responses.as_ref(), &way).map(|version| (config, version))
        }
    };
    if let Some(here) = here.as_ref().filter(|here| here.exists) {
        let path = here.path.display().to_string();
        report.add("disk", here::disk::findings(&path, &here.room, here.store_bytes));
        report.add("keys", here::secret_findings(&here.secrets));
    }
    if let Some(read) = here.as_ref().and_then(|here| here.retiring.as_ref()) {
        report.add("rotation", certificates::rotation(read));
    }
    let certificates = certificates_of(here.as_ref(), &file, seen.as_ref().ok());
    if !certificates.is_empty() {
        let found = certificates.iter().flat_map(|(read, of)| certificates::findings(read, *of, now));
        report.add("certificates", each_once(found));
    }
    if let Some((config, version)) = answers {
        match connect(&Remote::from(config)) {
            Ok(client) => {
                let started = responses.and_then(|responses| responses.started);
                let seen = World::unread(now, version, started);
                let world = World::read(&client.with_agent("check"), seen).await;
                world.judge(&mut report);
                let rotating = here.as_ref().filter(|here| here.retiring.is_some());
                if let Some(here) = rotating.filter(|here| !here.signers.is_empty()) {
                    report.add("nodes of the old root", world.unrenewed(&here.signers));
                }
            }
            Err(error) => {
                let way = way(&file, config, here.as_ref());
                let refusal = Refusal::Unusable(error.to_string());
                report.add("reading", vec![refusal::finding(&refusal, &way)]);
            }
        }
    }
    report
}

/// Nodes that lose access if the old root CA is retired, and nodes for which this is unknown. Empty if no CA
/// rotation is in progress.
///
/// # Errors
/// If this cannot be determined. The error is the reason, as a sentence.
pub async fn shut_out(data_dir: &Path) -> Result<Vec<String>, String> {
    let here = here::look(data_dir);
    if here.retiring.is_none() {
        return Ok(Vec::new());
    }
    let shown = data_dir.display();
    if !here.runs {
        return Err(format!("no master runs on {shown}, which knows of its nodes: start it"));
    }
    if here.signers.is_empty() {
        return Err(format!("{} of {shown} cannot be read", pki::INTERMEDIATE_CERTIFICATE));
    }
    let file = DataDir::at(data_dir).admin_kubeconfig();
    let config = kubeconfig(&file, Some(&here)).map_err(|finding| output::line(&finding))?;
    let client = connect(&Remote::from(&config)).map_err(|error| error.to_string())?;
    let world = World::of_nodes(&client.with_agent("rotate-ca")).await;
    let world = world.map_err(|why| format!("the nodes of {} could not be read: {why}", config.server))?;
    Ok(world.unrenewed(&here.signers).iter().map(output::line).collect())
}

/// Adds the findings about the server. Returns its version if its objects can be read.
fn listen(report: &mut Report, responses: Result<&Responses, &Refusal>, way: &Way) -> Option<Version> {
    let version = match responses {
        Err(refusal) => Err(Box::new(refusal::finding(refusal, way))),
        Ok(responses) if responses.version.code == 401 => Err(Box::new(refusal::unauthorized(way))),
        Ok(responses) => Version::of(&responses.version).map(|version| (responses, version)),
    };
    match version {
        Err(finding) => {
            report.add("master", vec![*finding]);
            None
        }
        Ok((responses, version)) => {
            report.add("master", server::health::findings(&responses.live, &responses.ready));
            report.add("version", version.findings(VERSION.git_version));
            report.add("clock", server::clock::findings(responses.clock.as_ref()));
            Some(version)
        }
    }
}

/// All certificates: those in the data directory, in the kubeconfig, and in the server's chain.
fn certificates_of(
    here: Option<&Here>,
    file: &Path,
    seen: Option<&(Kubeconfig, Result<Responses, Refusal>)>,
) -> Vec<(Read, Use)> {
    let mut all: Vec<(Read, Use)> = Vec::new();
    for read in here.iter().flat_map(|here| &here.certificates) {
        all.push((read.clone(), Use::Serving));
    }
    if let Some((config, responses)) = seen {
        let validities = pki::validities(config.credentials.certificates.as_bytes());
        let validities = validities.map_err(|fault| format!("it {fault}"));
        all.push((Read { file: file.display().to_string(), validities }, Use::Client));
        if let Ok(responses) = responses {
            let validities = responses.chain.iter().map(|der| Validity::of(der)).collect();
            all.push((Read { file: format!("of {}", config.server), validities }, Use::Serving));
        }
    }
    all
}

/// Reads the kubeconfig.
fn kubeconfig(path: &Path, here: Option<&Here>) -> Result<Kubeconfig, Box<Finding>> {
    let shown = path.display();
    let problem = |what: String, remedy: &str, cause: &str| {
        Box::new(Finding::problem("kubeconfig", what, remedy).because(cause))
    };
    let text = match read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let remedy = match here {
                Some(here) => format!(
                    "start a master with `master run --data-dir {}`, which makes it; or name another with --kubeconfig or --data-dir",
                    here.path.display()
                ),
                None => "name one that is there; `master kubeconfig --user NAME` makes one".to_owned(),
            };
            let cause = here.filter(|here| !here.exists).map(|_| "no master has run on that directory");
            return Err(problem(format!("{shown} is not there"), &remedy, cause.unwrap_or_default()));
        }
        Err(error) => {
            let remedy =
                "run this as its owner, or with a kubeconfig of your own (`master kubeconfig --user NAME`)";
            return Err(problem(format!("{shown} cannot be read"), remedy, &error.to_string()));
        }
    };
    Kubeconfig::read(&text).ok_or_else(|| {
        let remedy = "use admin.kubeconfig, or one of `master kubeconfig --user NAME`";
        let cause = "needed are a server, its authority, a certificate and its key, each within the file";
        problem(format!("{shown} is not as a master writes it"), remedy, cause)
    })
}

fn read(path: &Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(path)?.take(MOST_KUBECONFIG_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn way(file: &Path, config: &Kubeconfig, here: Option<&Here>) -> Way {
    Way {
        file: file.display().to_string(),
        server: config.server.clone(),
        data_dir: here.map(|here| here.path.display().to_string()),
        runs: here.is_some_and(|here| here.runs),
        advertised: here.and_then(|here| here.advertised),
    }
}

/// Removes repeated findings for a certificate that is in several files.
fn each_once(found: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let mut kept: Vec<Finding> = Vec::new();
    for finding in found {
        if kept.iter().all(|known| known.what != finding.what) {
            kept.push(finding);
        }
    }
    kept
}
