//! `master check`: whether a cluster is healthy; each finding with its cause and its cure.
//!
//! It looks into the directory of a master that is on this machine, knocks at the server that a kubeconfig names, and lists
//! what there is, as any client could. What was seen is judged by pure functions, a file a family.

mod finding;
mod here;
mod objects;
mod server;
mod tell;
#[cfg(test)]
mod tests;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use self::finding::Finding;
pub use self::finding::Report;
use self::here::Here;
use self::here::certificates::{self, Read, Use};
use self::objects::World;
use self::server::Heard;
use self::server::refusal::{self, Refusal, Way};
use self::server::version::Version;
pub use self::tell::{as_json, as_text};
use crate::controllers::{Client, Remote};
use crate::data_dir::DataDir;
use crate::kubeconfig::Kubeconfig;
use crate::pki::{self, Life};
use crate::server::VERSION;

/// Longest kubeconfig that is read; one with certificates is 10 KiB.
const MOST_KUBECONFIG_BYTES: u64 = 1 << 20;

/// Where to look.
#[derive(Clone, Debug)]
pub struct Target {
    /// The kubeconfig, when it is not that of the directory.
    pub kubeconfig: Option<PathBuf>,
    /// The directory of the master, when one is to be looked into.
    pub data_dir: Option<PathBuf>,
}

/// Looks at everything.
pub async fn run(target: &Target) -> Report {
    let here = target.data_dir.as_deref().map(here::look);
    let own = target.data_dir.as_deref().map(|directory| DataDir::at(directory).admin_kubeconfig());
    let file = target.kubeconfig.clone().or(own).unwrap_or_default();
    let seen = match kubeconfig(&file, here.as_ref()) {
        Err(finding) => Err(finding),
        Ok(config) => {
            let heard = server::knock(&Remote::from(&config)).await;
            Ok((config, heard))
        }
    };
    let heard = seen.as_ref().ok().and_then(|(_, heard)| heard.as_ref().ok());
    let now = heard.and_then(|heard| heard.clock.as_ref()?.time()).unwrap_or_else(Timestamp::now);
    let mut report = Report::default();
    let answers = match &seen {
        Err(finding) => {
            report.add("kubeconfig", vec![(**finding).clone()]);
            None
        }
        Ok((config, heard)) => {
            let way = way(&file, config, here.as_ref());
            listen(&mut report, heard.as_ref(), &way).map(|version| (config, version))
        }
    };
    if let Some(here) = here.as_ref().filter(|here| here.exists) {
        let path = here.path.display().to_string();
        report.add("disk", here::disk::findings(&path, &here.room, here.store_bytes));
        report.add("keys", here::secrets::findings(&here.secrets));
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
        match Client::outside(&Remote::from(config)) {
            Ok(client) => {
                let started = heard.and_then(|heard| heard.started);
                let seen = World::unread(now, version, started);
                let world = World::read(&client.called("check"), seen).await;
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

/// The nodes of the master on that directory that would be shut out if the root of before were retired now, and those of which nobody
/// can say; none where there is no such root.
///
/// # Errors
/// Why nobody can say so of any, as a sentence.
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
    let config = kubeconfig(&file, Some(&here)).map_err(|finding| tell::line(&finding))?;
    let client = Client::outside(&Remote::from(&config)).map_err(|error| error.to_string())?;
    let world = World::of_nodes(&client.called("rotate-ca")).await;
    let world = world.map_err(|why| format!("the nodes of {} could not be read: {why}", config.server))?;
    Ok(world.unrenewed(&here.signers).iter().map(tell::line).collect())
}

/// What a server says of itself; its version where it is one whose objects can be read.
fn listen(report: &mut Report, heard: Result<&Heard, &Refusal>, way: &Way) -> Option<Version> {
    let version = match heard {
        Err(refusal) => Err(Box::new(refusal::finding(refusal, way))),
        Ok(heard) if heard.version.code == 401 => Err(Box::new(refusal::unauthorized(way))),
        Ok(heard) => Version::of(&heard.version).map(|version| (heard, version)),
    };
    match version {
        Err(finding) => {
            report.add("master", vec![*finding]);
            None
        }
        Ok((heard, version)) => {
            report.add("master", server::health::findings(&heard.live, &heard.ready));
            report.add("version", version.findings(VERSION.git_version));
            report.add("clock", server::clock::findings(heard.clock.as_ref()));
            Some(version)
        }
    }
}

/// Every certificate that was seen: in the directory, in the kubeconfig, in the server's hand.
fn certificates_of(
    here: Option<&Here>,
    file: &Path,
    seen: Option<&(Kubeconfig, Result<Heard, Refusal>)>,
) -> Vec<(Read, Use)> {
    let mut all: Vec<(Read, Use)> = Vec::new();
    for read in here.iter().flat_map(|here| &here.certificates) {
        all.push((read.clone(), Use::Serving));
    }
    if let Some((config, heard)) = seen {
        let lives = pki::lives(config.credentials.certificates.as_bytes());
        let lives = lives.map_err(|fault| format!("it {fault}"));
        all.push((Read { file: file.display().to_string(), lives }, Use::Client));
        if let Ok(heard) = heard {
            let lives = heard.chain.iter().map(|der| Life::of(der)).collect();
            all.push((Read { file: format!("of {}", config.server), lives }, Use::Serving));
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

/// A certificate that stands in several files is told of once.
fn each_once(found: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let mut kept: Vec<Finding> = Vec::new();
    for finding in found {
        if kept.iter().all(|known| known.what != finding.what) {
            kept.push(finding);
        }
    }
    kept
}
