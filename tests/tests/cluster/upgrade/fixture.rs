//! Unpacks the recorded state of an earlier version, and creates its containers on the engine of the test.

use std::fs;
use std::path::Path;
use std::process::Command;

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::CreateContainerOptionsBuilder;
use jiff::Timestamp;
use serde_json::{Value, json};
use tests::manifest::FOREVER;
use tests::{DEADLINE, Engine, IMAGE, Master, World, wait_until};

/// The port of the recorded master.
const MASTER_PORT: &str = "39443";

/// The recorded state of a node and its master, below the folder of a world.
pub struct Fixture {
    /// The node, not started.
    pub world: World,
    name: String,
}

impl Fixture {
    /// Unpacks a recorded state.
    pub async fn unpack(name: &str) -> Self {
        let mut world = World::new(name).await;
        // Part of the names and labels of containers, and of the recorded objects.
        world.node = format!("upgrade-{name}");
        // A killed test may have left some.
        world.engine.remove_all(&world.node).await;
        let fixture = Self { world, name: name.to_owned() };
        fixture.extract(&["tmpfs"]);
        // The kubelet mounts these for Secrets, tokens and termination messages.
        for path in fixture.text("tmpfs").lines() {
            let path = fixture.world.path(path);
            fs::create_dir_all(&path).unwrap();
            run(Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(path));
        }
        fixture.extract(&[]);
        fixture
    }

    fn extract(&self, members: &[&str]) {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/upgrade");
        let archive = fixtures.join(format!("{}.tar.gz", self.name));
        let into = self.world.path("");
        run(Command::new("tar").arg("-xzpf").arg(archive).arg("-C").arg(into).args(members));
    }

    /// A file of the archive.
    pub fn text(&self, file: &str) -> String {
        fs::read_to_string(self.world.path(file)).unwrap()
    }

    /// The items of a recorded list, with the port of the present master.
    pub fn list(&self, file: &str, master_port: &str) -> Vec<Value> {
        let text = self.text(file).replace(MASTER_PORT, master_port);
        let mut list: Value = serde_json::from_str(&text).unwrap();
        match list["items"].take() {
            Value::Array(items) => items,
            other => panic!("{file} has no items but {other}"),
        }
    }

    /// A master with the recorded data directory and the flags of the recorded master, not started.
    pub fn master(&self, more: &[&str]) -> Master {
        let master = Master::new();
        fs::rename(self.world.path("master"), master.data_dir()).unwrap();
        let cluster_cidr = self.text("cluster-cidr");
        let mut flags =
            vec!["--advertise-address", "127.0.0.1", "--csr-approval-policy", "insecure-always-approve"];
        flags.extend(["--cluster-cidr", cluster_cidr.trim()]);
        flags.extend(more);
        master.with_flags(flags)
    }

    /// Creates the recorded containers, which get new engine IDs, and replaces the recorded IDs, paths and port in the
    /// files of the kubelet.
    pub async fn create_containers(&self, master_port: &str) {
        let docker = self.world.engine.docker();
        let image = docker.inspect_image(IMAGE).await.unwrap().id.unwrap();
        let manifests = self.world.manifests();
        let folder = manifests.parent().unwrap();
        let mut replacements = vec![
            (format!("/tmp/coracle-upgrade-{}", self.name), folder.display().to_string()),
            (format!("127.0.0.1:{MASTER_PORT}"), format!("127.0.0.1:{master_port}")),
            (self.text("image").trim().to_owned(), image),
        ];
        let recorded: Vec<Value> = serde_json::from_str(&self.text("containers.json")).unwrap();
        for container in recorded {
            let text = |name: &str| container[name].as_str().unwrap();
            let body = body(&container, &replacements);
            let options = CreateContainerOptionsBuilder::new().name(text("name")).build();
            let body: ContainerCreateBody = serde_json::from_value(body).unwrap();
            let created = docker.create_container(Some(options), body).await;
            let id = created.unwrap_or_else(|error| panic!("{}: {error}", text("name"))).id;
            docker
                .start_container(&id, None)
                .await
                .unwrap_or_else(|error| panic!("{}: {error}", text("name")));
            if container["running"] == false {
                has_ended(&self.world.engine, &id).await;
            }
            replacements.push((text("id").to_owned(), id));
        }
        replace_below(&self.world.root_dir(), &replacements);
        self.renew_events();
    }

    /// Moves the recorded events to the present, because the kubelet forgets events after an hour.
    fn renew_events(&self) {
        let path = self.world.root_dir().join("events.json");
        let mut events: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let mut newest = Timestamp::MIN;
        for_each_time(&mut events, &mut |time| {
            newest = newest.max(time);
            time
        });
        let age = Timestamp::now().duration_since(newest);
        for_each_time(&mut events, &mut |time| time.checked_add(age).unwrap());
        fs::write(&path, events.to_string()).unwrap();
    }
}

/// The body of the request that creates a recorded container.
fn body(container: &Value, replacements: &[(String, String)]) -> Value {
    let mut body: Value =
        serde_json::from_str(&replaced(&container["body"].to_string(), replacements)).unwrap();
    let is_sandbox = body["Labels"]["io.kubernetes.container.name"] == "POD";
    if is_sandbox {
        // The recorded pause image is part of another binary. The image of a running sandbox does not matter.
        body["Image"] = json!(IMAGE);
        body["Entrypoint"] = json!(["sh", "-c", FOREVER]);
        body["Cmd"] = Value::Null;
    }
    if !is_sandbox {
        // The engine rejects these for a container in the network of another one.
        let config = body.as_object_mut().unwrap();
        ["Hostname", "Domainname", "ExposedPorts"].iter().for_each(|field| drop(config.remove(*field)));
    }
    if container["running"] == false {
        // Only its end is of interest. Its sandbox may be gone.
        body["Entrypoint"] = json!(["sh", "-c", format!("exit {}", container["exitCode"])]);
        body["Cmd"] = Value::Null;
        let host = body["HostConfig"].as_object_mut().unwrap();
        for field in ["Binds", "Mounts", "IpcMode", "PidMode"] {
            host.remove(field);
        }
        host.insert("NetworkMode".to_owned(), json!("none"));
    }
    body
}

async fn has_ended(engine: &Engine, id: &str) {
    let look = async || {
        let state = engine.inspect(id).await?.state.unwrap_or_default();
        if state.running == Some(false) { Ok(()) } else { Err(format!("{state:?}")) }
    };
    wait_until(DEADLINE, look).await.unwrap();
}

fn replaced(text: &str, replacements: &[(String, String)]) -> String {
    replacements.iter().fold(text.to_owned(), |text, (old, new)| text.replace(old, new))
}

/// Replaces text in all text files below a directory.
fn replace_below(directory: &Path, replacements: &[(String, String)]) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let (kind, path) = (entry.file_type().unwrap(), entry.path());
        if kind.is_dir() {
            replace_below(&path, replacements);
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(&path)
        {
            let new = replaced(&text, replacements);
            if new != text {
                fs::write(&path, new).unwrap();
            }
        }
    }
}

/// Replaces each string that is a time.
fn for_each_time(value: &mut Value, new: &mut impl FnMut(Timestamp) -> Timestamp) {
    match value {
        Value::String(text) => {
            if let Ok(time) = text.parse::<Timestamp>() {
                *text = new(time).to_string();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| for_each_time(item, new)),
        Value::Object(fields) => fields.values_mut().for_each(|field| for_each_time(field, new)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}
