//! The floor: the same two containers made, started and removed through the engine's API with nothing in between.

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

/// Makes pods as the kubelet makes them, told by one that the kubelet has made.
#[derive(Clone)]
pub struct Bare {
    docker: Docker,
    /// The node label of what is made here, so that no kubelet takes it for its own.
    node: String,
    sandbox: ContainerCreateBody,
    app: ContainerCreateBody,
}

/// Two containers that were made bare.
pub struct BarePod {
    sandbox: String,
    /// Engine id of the second.
    pub app: String,
}

impl Bare {
    /// Makes pods on the engine's own bridge, told by one `model` of a node whose pods get their network there; the node has to stay.
    pub async fn on_bridge(name: &str, model: &str) -> (World, Self) {
        let mut world = World::new(name).await.with_flags(["--pod-network", "docker"]);
        world.start().await;
        world.write("model.yaml", model);
        world.wait_ready("model").await;
        let bare = Self::like(&world, "model").await;
        (world, bare)
    }

    /// Takes over every option of the two containers of a pod of that world, which has to stay there meanwhile:
    /// its termination message file is mounted too.
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
        // Filled in by the engine from the sandbox; as a wish, it would refuse them.
        (app.hostname, app.domainname, app.exposed_ports) = (None, None, None);
        Self {
            docker: engine.docker().clone(),
            node: format!("test-{}-bare", std::process::id()),
            sandbox,
            app,
        }
    }

    /// Create, start, create, start.
    pub async fn run(&self, name: &str) -> BarePod {
        let sandbox = self.create(name, "POD", self.sandbox.clone()).await;
        self.start(&sandbox).await;
        let app = self.create(name, "app", self.joined(&sandbox)).await;
        self.start(&app).await;
        BarePod { sandbox, app }
    }

    /// The same, but the second create goes on beside the first start, which the engine allows.
    pub async fn run_overlapped(&self, name: &str) -> BarePod {
        let sandbox = self.create(name, "POD", self.sandbox.clone()).await;
        let (app, ()) = tokio::join!(self.create(name, "app", self.joined(&sandbox)), self.start(&sandbox));
        self.start(&app).await;
        BarePod { sandbox, app }
    }

    /// SIGTERM to the app, its end, both removed; the sandbox, which has nothing to save, by force.
    pub async fn end(&self, pod: &BarePod) {
        self.stop(&pod.app).await;
        self.remove(&pod.app).await;
        self.remove(&pod.sandbox).await;
    }

    /// The same, but both are removed at once.
    pub async fn end_overlapped(&self, pod: &BarePod) {
        self.stop(&pod.app).await;
        tokio::join!(self.remove(&pod.app), self.remove(&pod.sandbox));
    }

    /// Makes all these pods, that many at once.
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

    /// Removes all these pods by force, at the engine's pace.
    pub async fn remove_all(&self, pods: Vec<BarePod>) {
        futures_util::stream::iter(pods)
            .for_each_concurrent(8, |pod| async move {
                tokio::join!(self.remove(&pod.app), self.remove(&pod.sandbox));
            })
            .await;
    }

    /// The app's container, joined to that sandbox.
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
        // A cgroup of its own for every pod, in the same place.
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
