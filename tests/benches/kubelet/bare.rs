//! The baseline: creates, starts and removes the same two containers through the Docker API, without a kubelet.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bollard::Docker;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, KillContainerOptionsBuilder, RemoveContainerOptionsBuilder,
    WaitContainerOptionsBuilder,
};
use futures_util::StreamExt;
use tests::World;
use tokio::task::JoinSet;

/// Creates containers with the options of a pod that the kubelet has created.
#[derive(Clone)]
pub struct Bare {
    docker: Docker,
    /// Node label of these containers; it differs from every kubelet's node name, so no kubelet adopts them.
    node: String,
    sandbox: ContainerCreateBody,
    app: ContainerCreateBody,
}

/// The two containers of one pod, created without a kubelet: the sandbox and the app container.
pub struct BarePod {
    sandbox: String,
    /// Docker ID of the app container.
    pub app: String,
}

impl Bare {
    /// Creates pods on the engine's own bridge. Their options are copied from pod `model` on a node that uses the
    /// engine's network. The returned node must outlive the returned value.
    pub async fn on_bridge(name: &str, model: &str) -> (World, Self) {
        let mut world = World::new(name).await.with_flags(["--pod-network", "docker"]);
        world.start().await;
        world.write("model.yaml", model);
        world.wait_ready("model").await;
        let bare = Self::like(&world, "model").await;
        (world, bare)
    }

    /// Copies all options of both containers of an existing pod. The pod must stay, because its termination message
    /// file is mounted as well.
    async fn like(world: &World, pod: &str) -> Self {
        let engine = &world.engine;
        let body = async |name: &str| {
            let found = engine.inspect(&world.container(pod, name).await.unwrap().id).await.unwrap();
            let config = serde_json::to_value(found.config.unwrap()).unwrap();
            let mut body: ContainerCreateBody = serde_json::from_value(config).unwrap();
            body.host_config = found.host_config;
            body
        };
        let sandbox = body("POD").await;
        let mut app = body("app").await;
        // The engine copies these fields from the sandbox and rejects a request that sets them.
        (app.hostname, app.domainname, app.exposed_ports) = (None, None, None);
        Self {
            docker: engine.docker().clone(),
            node: format!("test-{}-bare", std::process::id()),
            sandbox,
            app,
        }
    }

    /// Creates and starts the sandbox, then creates and starts the app container.
    pub async fn run(&self, name: &str) -> BarePod {
        let sandbox = self.create(name, "POD", self.sandbox.clone()).await;
        self.start(&sandbox).await;
        let app = self.create(name, "app", self.joined(&sandbox)).await;
        self.start(&app).await;
        BarePod { sandbox, app }
    }

    /// Creates the app container while the sandbox starts, which the engine allows. Otherwise does the same as
    /// `run`.
    pub async fn run_overlapped(&self, name: &str) -> BarePod {
        let sandbox = self.create(name, "POD", self.sandbox.clone()).await;
        let (app, ()) = tokio::join!(self.create(name, "app", self.joined(&sandbox)), self.start(&sandbox));
        self.start(&app).await;
        BarePod { sandbox, app }
    }

    /// Sends SIGTERM to the app, waits for its exit, and removes both containers. The sandbox is removed by force
    /// because it has no state to save.
    pub async fn end(&self, pod: &BarePod) {
        self.stop(&pod.app).await;
        self.remove(&pod.app).await;
        self.remove(&pod.sandbox).await;
    }

    /// Removes both containers concurrently. Otherwise does the same as `end`.
    pub async fn end_overlapped(&self, pod: &BarePod) {
        self.stop(&pod.app).await;
        tokio::join!(self.remove(&pod.app), self.remove(&pod.sandbox));
    }

    /// Creates the given pods, `at_once` of them concurrently.
    pub async fn run_all(&self, names: &[String], at_once: usize) -> Vec<BarePod> {
        let next = Arc::new(AtomicUsize::new(0));
        let names: Arc<[String]> = names.into();
        let mut hands = JoinSet::new();
        for _ in 0..at_once {
            let (bare, next, names) = (self.clone(), next.clone(), names.clone());
            hands.spawn(async move {
                let mut made = Vec::new();
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    made.push(bare.run(name).await);
                }
                made
            });
        }
        hands.join_all().await.into_iter().flatten().collect()
    }

    /// Removes the given pods by force, as fast as the engine allows.
    pub async fn remove_all(&self, pods: Vec<BarePod>) {
        futures_util::stream::iter(pods)
            .for_each_concurrent(8, |pod| async move {
                tokio::join!(self.remove(&pod.app), self.remove(&pod.sandbox));
            })
            .await;
    }

    /// Returns the request body of the app container, which joins the network of the given sandbox.
    fn joined(&self, sandbox: &str) -> ContainerCreateBody {
        let mut body = self.app.clone();
        let host = body.host_config.as_mut().unwrap();
        let join = Some(format!("container:{sandbox}"));
        (host.network_mode, host.ipc_mode) = (join.clone(), join);
        body
    }

    async fn create(&self, pod: &str, container: &str, mut body: ContainerCreateBody) -> String {
        let labels = body.labels.get_or_insert_with(HashMap::new);
        for (key, value) in [
            ("node.name", self.node.as_str()),
            ("pod.name", pod),
            ("pod.uid", pod),
            ("container.name", container),
        ] {
            labels.insert(format!("io.kubernetes.{key}"), value.to_owned());
        }
        // Each pod gets a cgroup under the same parent.
        let host = body.host_config.as_mut().unwrap();
        if let Some((place, _)) = host.cgroup_parent.as_deref().and_then(|parent| parent.rsplit_once("/pod"))
        {
            host.cgroup_parent = Some(format!("{place}/pod{pod}"));
        }
        let name = format!("k8s_{container}_{pod}_{}", self.node);
        let options = CreateContainerOptionsBuilder::new().name(&name).build();
        self.docker.create_container(Some(options), body).await.unwrap().id
    }

    async fn start(&self, id: &str) {
        self.docker.start_container(id, None).await.unwrap();
    }

    async fn stop(&self, id: &str) {
        let wait = WaitContainerOptionsBuilder::new().condition("not-running").build();
        let mut ended = self.docker.wait_container(id, Some(wait));
        let signal = KillContainerOptionsBuilder::new().signal("SIGTERM").build();
        let (killed, _) = tokio::join!(self.docker.kill_container(id, Some(signal)), ended.next());
        killed.unwrap();
    }

    async fn remove(&self, id: &str) {
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
        self.docker.remove_container(id, Some(options)).await.unwrap();
    }
}
