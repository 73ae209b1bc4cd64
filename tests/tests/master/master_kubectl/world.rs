//! The environment in which one kubectl runs one subject: a namespace, a home directory, files, and a background
//! command.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use tempfile::TempDir;
use tests::{DEADLINE, Kubectl, Master, wait_until};
use tokio::process::{Child, Command};

use crate::master_kubectl::line::{Line, Verb, split};

/// Editor for `kubectl edit` that makes one change.
const EDITOR: &str = "sed -i s/blue/green/";
/// Output file of the background command.
const PRINTED: &str = "printed.txt";

/// The environment of one kubectl.
pub struct World<'a> {
    master: &'a Master,
    kubectl: &'a Kubectl,
    /// Its name: the namespace, and the prefix of the names of cluster-scoped objects.
    me: String,
    folder: TempDir,
    /// Values that lines have stored, by name.
    kept: Vec<(String, String)>,
    going: Option<Child>,
}

impl<'a> World<'a> {
    /// Creates a namespace that is ready for pods, and the table's files with the name of the world in them.
    pub async fn new(master: &'a Master, subject: &str, kubectl: &'a Kubectl) -> Self {
        let me = format!("{subject}-{}", kubectl.minor);
        let folder = tempfile::Builder::new().prefix("co").tempdir_in("/tmp").unwrap();
        let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/master/master_kubectl/files");
        copy(&files, folder.path(), &me);
        let kubeconfig = master.file("admin.kubeconfig");
        let context = format!("  context:\n    namespace: {me}\n");
        fs::write(folder.path().join("kubeconfig"), kubeconfig.replace("  context:\n", &context)).unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        make_namespace(master, &me).await;
        Self { master, kubectl, me, folder, kept: Vec::new(), going: None }
    }

    /// Runs a line.
    ///
    /// # Errors
    /// If the output is unexpected. The error is the output.
    pub async fn plays(&mut self, line: &Line) -> Result<(), String> {
        let mut typed = line.typed.replace("{me}", &self.me);
        for (name, value) in &self.kept {
            typed = typed.replace(&format!("{{{name}}}"), value);
        }
        if !line.is_known_to(self.kubectl.minor) {
            let typed = if line.verb == Verb::Keeps { after_name(&typed).1 } else { &typed };
            let (succeeds, printed) = self.types(typed).await;
            let is_expected = !succeeds && line.instead.are_in(&printed, &self.me);
            return if is_expected {
                Ok(())
            } else {
                Err(format!("{typed}, which it does not know: {printed}"))
            };
        }
        match line.verb {
            Verb::Does | Verb::Fails => {
                let (succeeds, printed) = self.types(&typed).await;
                let is_right = succeeds == (line.verb == Verb::Does) && self.has(line, &printed);
                if is_right { Ok(()) } else { Err(describe_failure(line, &typed, succeeds, &printed)) }
            }
            Verb::Keeps => {
                let (name, typed) = after_name(&typed);
                let (succeeds, printed) = self.types(typed).await;
                self.keep(name, printed.trim());
                if succeeds { Ok(()) } else { Err(describe_failure(line, typed, succeeds, &printed)) }
            }
            Verb::Begins => self.begins(line, &typed).await,
            // The command was not started because this kubectl does not support it.
            Verb::Shows | Verb::Ends if self.going.is_none() => Ok(()),
            Verb::Shows => {
                let shown = self.prints(line, false).await;
                self.going = None;
                shown
            }
            Verb::Ends => {
                let ended = self.prints(line, true).await;
                self.going = None;
                ended
            }
            Verb::Fetches => self.fetches(line, &typed).await,
        }
    }

    fn has(&self, line: &Line, printed: &str) -> bool {
        line.words.iter().all(|words| words.are_in(printed, &self.me))
    }

    /// Runs a command to its end. Returns whether it succeeded and its output.
    async fn types(&self, typed: &str) -> (bool, String) {
        let mut command = self.command(typed);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = tokio::time::timeout(DEADLINE, command.output()).await;
        let output =
            run.unwrap_or_else(|_| panic!("1.{}: {typed} does not end", self.kubectl.minor)).unwrap();
        let printed = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
    }

    fn command(&self, typed: &str) -> Command {
        let folder = self.folder.path();
        let mut words = split(typed);
        let input = words.last().and_then(|word| word.strip_prefix('<')).map(|name| folder.join(name));
        if input.is_some() {
            words.pop();
        }
        let mut command = Command::new(&self.kubectl.path);
        command
            .current_dir(folder)
            .env("HOME", folder.join("home"))
            .env("KUBECONFIG", folder.join("kubeconfig"));
        // Turns off Go's garbage collection, which only costs time in processes that are this short.
        command.env("KUBE_EDITOR", EDITOR).env("GOGC", "off");
        command.args(words).kill_on_drop(true);
        command.stdin(input.map_or_else(Stdio::null, |path| File::open(path).unwrap().into()));
        command
    }

    async fn begins(&mut self, line: &Line, typed: &str) -> Result<(), String> {
        let printed = File::create(self.folder.path().join(PRINTED)).unwrap();
        let mut command = self.command(typed);
        command.stdout(printed.try_clone().unwrap()).stderr(printed);
        self.going = Some(command.spawn().unwrap());
        self.prints(line, false).await
    }

    /// Waits until the background command has printed the words of the line and, if `ends` is set, has exited.
    async fn prints(&mut self, line: &Line, ends: bool) -> Result<(), String> {
        let me = self.me.clone();
        let path = self.folder.path().join(PRINTED);
        let going = self.going.as_mut().expect("something goes on");
        let look = async || {
            // Check for the exit first: after it the output is complete.
            let ended = going.try_wait().unwrap();
            let printed = fs::read_to_string(&path).unwrap();
            let is_there = line.words.iter().all(|words| words.are_in(&printed, &me));
            match ended {
                _ if is_there && !ends => Ok(Ok(())),
                Some(status) if is_there && status.success() => Ok(Ok(())),
                Some(status) => Ok(Err(format!("{status}: {printed}"))),
                None => Err(format!("it goes on: {printed}")),
            }
        };
        wait_until(DEADLINE, look).await.and_then(|ended| ended)
    }

    /// Sets the value of `{name}` for later lines.
    fn keep(&mut self, name: &str, value: &str) {
        let hole = format!("{{{name}}}");
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let text = fs::read_to_string(&path).unwrap();
                fs::write(&path, text.replace(&hole, value)).unwrap();
            }
        }
        self.kept.push((name.to_owned(), value.to_owned()));
    }

    async fn fetches(&self, line: &Line, path: &str) -> Result<(), String> {
        let printed = fs::read_to_string(self.folder.path().join(PRINTED)).unwrap();
        let (_, port) = printed.trim().rsplit_once(':').ok_or("no port is named")?;
        let answer = self.master.client().get(format!("http://127.0.0.1:{port}{path}")).send().await;
        let text =
            answer.map_err(|error| format!("{error:?}"))?.text().await.map_err(|error| error.to_string())?;
        if self.has(line, &text) { Ok(()) } else { Err(format!("{path}: {text}")) }
    }
}

/// The name under which a value is stored, and the command.
fn after_name(typed: &str) -> (&str, &str) {
    typed.split_once(' ').expect("a name and a command")
}

fn describe_failure(line: &Line, typed: &str, succeeds: bool, printed: &str) -> String {
    let how = if succeeds { "succeeds" } else { "fails" };
    format!("{typed}\n{how} and prints: {printed}\nexpected: {:?} {:?}", line.verb, line.words)
}

fn copy(from: &Path, to: &Path, me: &str) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copied = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir(&copied).unwrap();
            copy(&path, &copied, me);
        } else {
            fs::write(copied, fs::read_to_string(&path).unwrap().replace("{me}", me)).unwrap();
        }
    }
}

/// Creates a namespace. Waits for its service account and for a ConfigMap that `learning` lists.
async fn make_namespace(master: &Master, name: &str) {
    let client = master.client();
    let url = format!("https://127.0.0.1:{}/api/v1/namespaces", master.port);
    let namespace = json!({"metadata": {"name": name}});
    let made = client.post(url).json(&namespace).send().await.unwrap();
    assert!(made.status().is_success(), "{name}: {}", made.text().await.unwrap());
    master.until_account(name).await;
    master.until_found("/api/v1/namespaces/kube-public/configmaps/kube-root-ca.crt").await;
}
