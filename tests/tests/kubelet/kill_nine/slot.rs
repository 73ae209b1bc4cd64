//! A pod that a node may have: its current manifest, its possible edits, and the expected containers.

use tests::manifest::{self, FOREVER};
use tests::{Chance, IMAGE, Port, free_port};

/// The kinds of pods in this test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Two containers.
    Plain,
    /// A pod with an init container.
    Init,
    /// A pod with a sidecar container.
    Sidecar,
    /// A pod that ends, and must run once.
    Job,
    /// A pod with all three probes.
    Probed,
    /// A pod with a ConfigMap volume.
    Config,
    /// A pod with a host port.
    HostPort,
    /// A pod that fails again and again.
    Crashing,
}

/// The expected state of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// It runs.
    Up,
    /// It has ended.
    Done,
    /// Either: it fails and is restarted.
    Any,
}

/// One pod of a node.
#[derive(Debug)]
pub struct Slot {
    /// The name in the manifest and of its file.
    pub name: String,
    /// The kind of pod.
    pub sort: Sort,
    /// Whether its manifest exists.
    pub wanted: bool,
    /// The version of each container, by name: a text in its command.
    pub versions: Vec<(&'static str, u32)>,
    /// The value in its ConfigMap.
    pub data: u32,
    label: u32,
    image: String,
    /// A host port that the pod never had before.
    port: Option<Port>,
}

/// The containers that an edit may restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// The whole pod, including its sandbox.
    All,
    /// This container.
    One(&'static str),
    /// No container.
    None,
}

impl Slot {
    /// A pod whose manifest does not exist yet.
    pub fn new(name: String, sort: Sort) -> Self {
        let names: &[&'static str] = match sort {
            Sort::Plain => &["main", "second"],
            Sort::Init => &["first", "main"],
            Sort::Sidecar => &["side", "main"],
            Sort::Job | Sort::Probed | Sort::Config | Sort::HostPort | Sort::Crashing => &["main"],
        };
        let versions = names.iter().map(|name| (*name, 0)).collect();
        Self { name, sort, wanted: false, versions, data: 0, label: 0, image: IMAGE.to_owned(), port: None }
    }

    /// Gives each part a new, unused version.
    pub fn renew(&mut self, next: &mut impl FnMut() -> u32) {
        for (_, version) in &mut self.versions {
            *version = next();
        }
        self.data = next();
        self.port = (self.sort == Sort::HostPort).then(free_port);
    }

    /// Changes something. Returns which containers may restart.
    pub fn edit(
        &mut self,
        chance: &mut Chance,
        next: &mut impl FnMut() -> u32,
        other_image: &str,
    ) -> Touched {
        if chance.once_in(5) {
            self.label = next();
            return Touched::None;
        }
        if self.sort == Sort::Config && chance.once_in(2) {
            self.data = next();
            return Touched::None;
        }
        if self.sort == Sort::HostPort && chance.once_in(2) {
            self.port = Some(free_port());
            return Touched::All;
        }
        if self.sort == Sort::Plain && chance.once_in(3) {
            self.image = if self.image == IMAGE { other_image } else { IMAGE }.to_owned();
            self.versions[1].1 = next(); // It must never have an earlier version again.
            return Touched::One("second");
        }
        let edited = chance.below(self.versions.len());
        let (name, version) = &mut self.versions[edited];
        *version = next();
        if *name == "first" || self.sort == Sort::Job { Touched::All } else { Touched::One(name) }
    }

    /// The text that only containers of the current version have in their command.
    pub fn mark(&self, container: &str) -> String {
        let (_, version) = self.versions.iter().find(|(name, _)| *name == container).unwrap();
        format!("mark-{version}-")
    }

    /// The expected state of each container.
    pub fn goals(&self) -> Vec<(&'static str, Goal)> {
        let goal = |name: &str| match (self.sort, name) {
            (Sort::Job, _) | (Sort::Init, "first") => Goal::Done,
            (Sort::Crashing, _) => Goal::Any,
            _ => Goal::Up,
        };
        self.versions.iter().map(|(name, _)| (*name, goal(name))).collect()
    }

    /// The manifest. `runs` is a host folder in which jobs leave a trace of each run.
    pub fn manifest(&self, runs: &str) -> String {
        let script = |name: &str, rest: &str| format!(": {}; {rest}", self.mark(name));
        let up = |name: &str, more: &str| manifest::container(name, &script(name, FOREVER), more);
        let spec = match self.sort {
            Sort::Plain => {
                let second = up("second", "").replace(IMAGE, &self.image);
                format!("containers:\n- {}\n- {second}", up("main", ""))
            }
            Sort::Init => {
                let first = manifest::container("first", &script("first", "true"), "");
                format!("initContainers:\n- {first}\ncontainers:\n- {}", up("main", ""))
            }
            Sort::Sidecar => format!(
                "initContainers:\n- {}\ncontainers:\n- {}",
                up("side", "restartPolicy: Always"),
                up("main", "")
            ),
            Sort::Job => {
                let trace = format!("echo ran >>/runs/{}", self.trace());
                let main = manifest::container(
                    "main",
                    &script("main", &trace),
                    "volumeMounts: [{name: runs, mountPath: /runs}]",
                );
                format!(
                    "restartPolicy: Never\nvolumes:\n- {{name: runs, hostPath: {{path: {runs}}}}}\ncontainers:\n- {main}"
                )
            }
            Sort::Probed => {
                let script =
                    script("main", "httpd -p 8080 -h /www; trap 'exit 0' TERM; sleep 1000000 & wait");
                let probe = "{httpGet: {path: /, port: 8080}, periodSeconds: 1, failureThreshold: 60}";
                let script = format!("mkdir -p /www; echo hello >/www/index.html; {script}");
                let probes =
                    format!("startupProbe: {probe}, readinessProbe: {probe}, livenessProbe: {probe}");
                format!("containers:\n- {}", manifest::container("main", &script, &probes))
            }
            Sort::Config => format!(
                "volumes:\n- {{name: config, configMap: {{name: {}}}}}\ncontainers:\n- {}",
                self.name,
                up("main", "volumeMounts: [{name: config, mountPath: /config}]")
            ),
            Sort::HostPort => {
                let port = self.port.as_ref().unwrap();
                let ports = format!("ports: [{{containerPort: 8080, hostPort: {port}}}]");
                format!("containers:\n- {}", up("main", &ports))
            }
            Sort::Crashing => {
                format!("containers:\n- {}", manifest::container("main", &script("main", "exit 3"), ""))
            }
        };
        let pod = manifest::pod(&self.name, &spec);
        let named = format!("  name: {}\n", self.name);
        let labelled = pod.replacen(&named, &format!("{named}  labels: {{version: 'v{}'}}\n", self.label), 1);
        match self.sort {
            Sort::Config => format!(
                "{labelled}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {}}}\ndata: {{key: 'data {}'}}\n",
                self.name, self.data
            ),
            _ => labelled,
        }
    }

    /// The host port in the manifest.
    pub fn port(&self) -> Option<u16> {
        self.port.as_ref().map(|port| port.number)
    }

    /// The file in which a job of this version leaves its trace.
    pub fn trace(&self) -> String {
        format!("{}-{}", self.name, self.versions[0].1)
    }
}
