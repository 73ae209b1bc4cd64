//! A container registry for one test: Debian's docker-registry on a free port, with or without a password.

use std::fs;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use bollard::auth::DockerCredentials;
use bollard::models::{ContainerConfig, ContainerCreateBody};
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, CreateContainerOptions, PushImageOptionsBuilder, RemoveContainerOptions,
    RemoveImageOptionsBuilder, TagImageOptionsBuilder,
};
use futures_util::StreamExt;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::process::Process;
use crate::{DEADLINE, Engine, IMAGE, Port, free_port, installed, wait_until};

/// User of a registry with a password.
pub const USER: &str = "alice";
/// Password of the user of the registry.
pub const PASSWORD: &str = "open sesame";
/// `USER:PASSWORD` in htpasswd format (bcrypt with 16 rounds, which is enough for a test).
const HTPASSWD: &str = "alice:$2b$04$YQVI02z35uxRF5Z/BSK4qOOkTQwqKOlrCPq.CcqGFmbw1.fMvD16.\n";

/// A running registry. Dropping the value stops it.
#[derive(Debug)]
pub struct Registry {
    port: Port,
    password: bool,
    folder: TempDir,
    process: Option<Process>,
    pushed: Mutex<Vec<String>>,
}

impl Registry {
    /// Starts a registry without authentication.
    pub async fn open() -> Self {
        Self::start(false).await
    }

    /// Starts a registry that requires [`USER`] and [`PASSWORD`].
    pub async fn with_password() -> Self {
        Self::start(true).await
    }

    async fn start(password: bool) -> Self {
        let folder = tempfile::Builder::new().prefix("co").tempdir_in("/tmp").unwrap();
        let mut registry =
            Self { port: free_port(), password, folder, process: None, pushed: Mutex::default() };
        registry.resume().await;
        registry
    }

    /// Stops the process. Its images stay for [`Registry::resume`].
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Starts the process, also after `stop`, and waits until it listens.
    pub async fn resume(&mut self) {
        let folder = self.folder.path();
        let auth = if self.password {
            fs::write(folder.join("htpasswd"), HTPASSWD).unwrap();
            format!("auth: {{htpasswd: {{realm: test, path: {}/htpasswd}}}}\n", folder.display())
        } else {
            String::new()
        };
        let config = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}/data}}}}\nhttp: {{addr: '127.0.0.1:{}'}}\n{auth}",
            folder.display(),
            self.port
        );
        fs::write(folder.join("config.yml"), config).unwrap();
        let mut command = Command::new(installed("docker-registry", "docker-registry"));
        command.arg("serve").arg(folder.join("config.yml"));
        let log = folder.join("registry.log");
        self.process = Some(Process::start(&mut command, &log));
        let address = format!("127.0.0.1:{}", self.port);
        wait_until(DEADLINE, async || {
            TcpStream::connect(&address).await.map(drop).map_err(|error| error.to_string())
        })
        .await
        .unwrap_or_else(|seen| {
            panic!("no registry at {address}: {seen}\n{}", fs::read_to_string(log).unwrap())
        });
    }

    /// Returns the address of the registry, the first part of its image names.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Pushes the test image to the registry under the given name. Removes the name from the engine, so that the
    /// engine must pull the image.
    pub async fn push(&self, engine: &Engine, repository: &str, tag: &str) -> String {
        let full = format!("{}/{repository}", self.address());
        let options = TagImageOptionsBuilder::new().repo(&full).tag(tag).build();
        engine.docker().tag_image(IMAGE, Some(options)).await.unwrap();
        self.push_local(engine, &full, tag).await
    }

    /// Pushes a new image with the files of the test image. No other test uses it, because it has an id of its own.
    pub async fn push_new(&self, engine: &Engine, repository: &str, tag: &str) -> String {
        let docker = engine.docker();
        let full = format!("{}/{repository}", self.address());
        let body = ContainerCreateBody { image: Some(IMAGE.to_owned()), ..ContainerCreateBody::default() };
        let id = docker.create_container(None::<CreateContainerOptions>, body).await.unwrap().id;
        let options = CommitContainerOptionsBuilder::new().container(&id).repo(&full).tag(tag).build();
        docker.commit_container(options, ContainerConfig::default()).await.unwrap();
        docker.remove_container(&id, None::<RemoveContainerOptions>).await.unwrap();
        self.push_local(engine, &full, tag).await
    }

    /// Pushes an image of the engine, and removes its name there.
    async fn push_local(&self, engine: &Engine, full: &str, tag: &str) -> String {
        let (docker, name) = (engine.docker(), format!("{full}:{tag}"));
        let credentials = DockerCredentials {
            username: Some(USER.to_owned()),
            password: Some(PASSWORD.to_owned()),
            ..DockerCredentials::default()
        };
        let options = PushImageOptionsBuilder::new().tag(tag).build();
        let mut progress = docker.push_image(full, Some(options), Some(credentials));
        while let Some(step) = progress.next().await {
            step.unwrap_or_else(|error| panic!("push of {name}: {error}"));
        }
        self.pushed.lock().unwrap().push(name.clone());
        forget(engine, &name).await;
        name
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let names = std::mem::take(&mut *self.pushed.lock().unwrap());
        // A separate thread, because the test's runtime is blocked in this drop.
        let cleaned = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let engine = Engine::connect().await;
                for name in names {
                    forget(&engine, &name).await;
                }
            });
        });
        let _ = cleaned.join();
    }
}

/// Removes an image name from the engine.
async fn forget(engine: &Engine, name: &str) {
    let options = RemoveImageOptionsBuilder::new().force(true).build();
    // Ignore the error: the image may not exist.
    let _ = engine.docker().remove_image(name, Some(options), None).await;
}
