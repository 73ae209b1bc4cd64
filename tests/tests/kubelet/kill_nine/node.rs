//! A node whose kubelet is killed again and again, and its observed history.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use tests::{Chance, Container, History, World, moment, network};

use crate::kill_nine::slot::{Goal, Slot, Sort, Touched};
use crate::kill_nine::{LONGEST, SHORTEST};

/// Back-off between two runs of a failing container: none, then 10 s, 20 s and so on, minus a tolerance for clocks and rounding.
const BACK_OFF: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(9_900),
    Duration::from_millis(19_900),
    Duration::from_millis(39_900),
];

/// A container in the last settled state.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settled {
    id: String,
    attempt: u32,
}

/// A node under test.
pub struct Node {
    /// The number of kills of its kubelet.
    pub kills: usize,
    world: World,
    history: History,
    slots: Vec<Slot>,
    chance: Chance,
    other_image: String,
    last_version: u32,
    /// The containers of the last settled state that no edit has affected since, by pod and container.
    settled: BTreeMap<(String, String), Settled>,
    /// Attempt numbers never decrease while a pod lives.
    attempts: BTreeMap<(String, String), u32>,
    begun: Instant,
}

impl Node {
    /// A node with a running kubelet and no pods.
    pub async fn new(number: usize, sorts: &[Sort], other_image: String, chance: Chance) -> Self {
        let mut world = World::new(&format!("k{number}")).await;
        let history = History::of(&world.engine, &world.node).await;
        fs::create_dir(world.path("runs")).unwrap();
        world.start().await;
        let slots = sorts.iter().enumerate().map(|(n, sort)| Slot::new(format!("p{n}"), *sort)).collect();
        Self {
            kills: 0,
            world,
            history,
            slots,
            chance,
            other_image,
            last_version: 0,
            settled: BTreeMap::new(),
            attempts: BTreeMap::new(),
            begun: Instant::now(),
        }
    }

    /// Makes some changes and kills, then waits until the node settles.
    pub async fn round(&mut self) {
        for _ in 0..=self.chance.below(2) {
            self.change();
        }
        self.kill_after(LONGEST).await;
        if self.chance.once_in(3) {
            self.change(); // The kubelet does not run during this change.
        }
        while self.chance.once_in(2) {
            self.world.launch();
            self.kill_after(SHORTEST).await;
        }
        self.world.launch();
        self.settle().await;
    }

    /// Removes all pods, and asserts that nothing is left.
    pub async fn end(&mut self) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].wanted {
                self.remove(slot);
            }
        }
        self.settle().await;
        let node = &self.world;
        let nothing = async || {
            let left = node.leftovers().await;
            if left.is_empty() { Ok(()) } else { Err(format!("there still is {left:?}")) }
        };
        node.wait_for("every trace of its pods to go", nothing).await;
        assert!(network::routes(&node.node).len() <= 1, "{:?}", network::routes(&node.node));
        self.log_step("done");
    }

    async fn kill_after(&mut self, longest: Duration) {
        let after = self.chance.moment(longest);
        moment(after).await;
        self.world.kill();
        self.kills += 1;
        self.log_step(&format!("kill {} after {after:?}", self.kills));
    }

    fn change(&mut self) {
        let slot = self.chance.below(self.slots.len());
        if !self.slots[slot].wanted {
            self.add(slot);
        } else if self.chance.once_in(5) {
            self.remove(slot);
        } else {
            self.edit(slot);
        }
    }

    fn add(&mut self, slot: usize) {
        let last = &mut self.last_version;
        self.slots[slot].renew(&mut || next(last));
        self.slots[slot].wanted = true;
        self.touch(slot, &Touched::All);
        self.write(slot, "add");
    }

    fn edit(&mut self, slot: usize) {
        let last = &mut self.last_version;
        let touched = self.slots[slot].edit(&mut self.chance, &mut || next(last), &self.other_image);
        self.touch(slot, &touched);
        self.write(slot, &format!("edit, touching {touched:?} of"));
    }

    fn remove(&mut self, slot: usize) {
        self.slots[slot].wanted = false;
        self.touch(slot, &Touched::All);
        let full = self.world.pod_name(&self.slots[slot].name);
        self.attempts.retain(|(pod, _), _| *pod != full);
        self.world.remove(&format!("{}.yaml", self.slots[slot].name));
        self.log_step(&format!("remove {}", self.slots[slot].name));
    }

    fn write(&self, slot: usize, what: &str) {
        let slot = &self.slots[slot];
        let text = slot.manifest(&self.world.path("runs").display().to_string());
        self.world.write(&format!("{}.yaml", slot.name), &text);
        self.log_step(&format!("{what} {} ({:?}) {:?}", slot.name, slot.sort, slot.versions));
    }

    fn touch(&mut self, slot: usize, touched: &Touched) {
        let full = self.world.pod_name(&self.slots[slot].name);
        self.settled.retain(|(pod, name), _| {
            *pod != full
                || match touched {
                    Touched::All => false,
                    Touched::One(one) => name != one,
                    Touched::None => true,
                }
        });
    }

    /// Waits until the containers match the manifests, then asserts the invariants.
    async fn settle(&mut self) {
        let began = Instant::now();
        let node = &*self;
        let look = async || {
            let containers = node.world.containers().await;
            node.in_order(&containers).await.map(|()| containers)
        };
        let containers = node.world.wait_for("what the manifests say to run", look).await;
        self.log_step(&format!("in order after {:?}", began.elapsed()));
        if let Some(newest) = containers
            .iter()
            .filter(|c| c.state == "running")
            .max_by_key(|c| c.labels.get("io.kubernetes.pod.uid"))
        {
            self.history.caught_up_with(&newest.id).await;
        }
        if let Err(broken) = self.judge(&containers) {
            panic!("node {}, kill {}: {broken}\n{}", self.world.node, self.kills, self.world.log_tail());
        }
        self.keep(&containers);
    }

    async fn in_order(&self, containers: &[Container]) -> Result<(), String> {
        for container in containers {
            let known = |slot: &&Slot| self.world.pod_name(&slot.name) == container.pod;
            let Some(slot) = self.slots.iter().find(known) else {
                return Err(format!("{} is of a pod that never was", container.engine_name));
            };
            if !slot.wanted {
                return Err(format!("{} is still there", container.engine_name));
            }
        }
        for slot in self.slots.iter().filter(|slot| slot.wanted) {
            self.slot_in_order(slot, containers)
                .await
                .map_err(|e| format!("{} ({:?}): {e}", slot.name, slot.sort))?;
        }
        Ok(())
    }

    async fn slot_in_order(&self, slot: &Slot, containers: &[Container]) -> Result<(), String> {
        let full = self.world.pod_name(&slot.name);
        let of = |name: &str| -> Vec<&Container> {
            containers.iter().filter(|c| c.pod == full && c.name == name).collect()
        };
        let sandboxes = of("POD");
        let wanted_sandboxes = usize::from(slot.sort != Sort::Job);
        if sandboxes.len() != wanted_sandboxes || !sandboxes.iter().all(|c| c.is_running()) {
            return Err(format!("its sandboxes are {sandboxes:?}"));
        }
        for (name, goal) in slot.goals() {
            let all = of(name);
            let Some(newest) = all.last() else { return Err(format!("there is no {name}")) };
            if !newest.command.contains(&slot.mark(name)) {
                return Err(format!("{name} is not what the manifest says: {newest:?}"));
            }
            let up = all.iter().filter(|c| c.is_running()).count();
            let good = match goal {
                Goal::Up => newest.is_running() && up == 1,
                Goal::Done => newest.state == "exited" && up == 0,
                Goal::Any => up <= 1,
            };
            if !good || all.len() > 2 {
                return Err(format!("{name} should be {goal:?}: {all:?}"));
            }
        }
        if let Some(port) = slot.port() {
            self.has_its_port(port, sandboxes[0]).await?;
        }
        if slot.sort == Sort::Config {
            self.sees_its_data(slot, of("main").last().unwrap()).await?;
        }
        Ok(())
    }

    /// Whether the packet rules of the node's network, or the engine, have the host port.
    async fn has_its_port(&self, port: u16, sandbox: &Container) -> Result<(), String> {
        let mut open = network::ports(&self.world.node);
        let config = self.world.engine.inspect(&sandbox.id).await?.host_config.unwrap_or_default();
        let bound = config.port_bindings.unwrap_or_default().into_values().flatten().flatten();
        open.extend(bound.filter_map(|bound| bound.host_port?.parse::<u16>().ok()));
        if open.contains(&port) { Ok(()) } else { Err(format!("its port is not among {open:?}")) }
    }

    async fn sees_its_data(&self, slot: &Slot, container: &Container) -> Result<(), String> {
        let pid = self.world.engine.inspect(&container.id).await?.state.and_then(|s| s.pid).unwrap_or(0);
        let seen = fs::read_to_string(format!("/proc/{pid}/root/config/key")).map_err(|e| e.to_string())?;
        if seen == format!("data {}", slot.data) { Ok(()) } else { Err(format!("it sees {seen:?}")) }
    }

    /// Invariants that hold whenever the kubelet was killed.
    fn judge(&self, containers: &[Container]) -> Result<(), String> {
        if let Some(broken) = self.history.broken().first() {
            return Err(broken.clone());
        }
        for container in containers {
            let who = (container.pod.clone(), container.name.clone());
            let newer =
                containers.iter().any(|c| c.pod == who.0 && c.name == who.1 && c.attempt > container.attempt);
            if newer {
                continue;
            }
            if let Some(settled) = self.settled.get(&who)
                && settled.id != container.id
            {
                return Err(format!("{who:?} was not edited, yet {settled:?} became {container:?}"));
            }
            if self.attempts.get(&who).is_some_and(|before| container.attempt < *before) {
                return Err(format!(
                    "the restarts of {who:?} went back: {:?}, {container:?}",
                    self.attempts[&who]
                ));
            }
        }
        for (who, settled) in &self.settled {
            if !containers.iter().any(|c| c.id == settled.id) {
                return Err(format!("{who:?} was not edited, yet {settled:?} is gone"));
            }
        }
        self.starts_are_due()?;
        self.jobs_ran_once()
    }

    /// Each version of a container starts once; a failing container restarts only after its back-off.
    fn starts_are_due(&self) -> Result<(), String> {
        let events = self.history.events();
        let mut runs: BTreeMap<_, Vec<_>> = BTreeMap::new();
        // The container with which the kubelet probes the engine belongs to no pod.
        let starts = events.iter().filter(|e| e.action == "start" && e.name != "POD" && !e.pod.is_empty());
        for start in starts {
            let wanted = (&start.pod, &start.name, &start.hash);
            runs.entry(wanted).or_default().push(start);
        }
        for ((pod, name, hash), starts) in runs {
            let slot = self.slots.iter().find(|slot| self.world.pod_name(&slot.name) == *pod).unwrap();
            if slot.sort != Sort::Crashing && starts.len() > 1 {
                return Err(format!("{name} of {pod} (hash {hash}) was started again: {starts:?}"));
            }
            for (run, pair) in starts.windows(2).enumerate() {
                let end = events.iter().find(|e| e.action == "die" && e.id == pair[0].id).unwrap();
                let least = BACK_OFF[run.min(BACK_OFF.len() - 1)];
                if end.until(pair[1]) < least {
                    return Err(format!(
                        "{name} of {pod} was restarted {:?} after its end, not {least:?}",
                        end.until(pair[1])
                    ));
                }
            }
        }
        Ok(())
    }

    fn jobs_ran_once(&self) -> Result<(), String> {
        for entry in fs::read_dir(self.world.path("runs")).unwrap() {
            let path = entry.unwrap().path();
            let trace = fs::read_to_string(&path).unwrap();
            // A job that was removed in the middle of its run has left no trace yet.
            let may_be_empty = !self.slots.iter().any(|slot| slot.wanted && path.ends_with(slot.trace()));
            if trace != "ran\n" && !(trace.is_empty() && may_be_empty) {
                return Err(format!("a job ran more than once: {} is {trace:?}", path.display()));
            }
        }
        for job in self.slots.iter().filter(|slot| slot.wanted && slot.sort == Sort::Job) {
            if !self.world.path("runs").join(job.trace()).exists() {
                return Err(format!("{} counts as done and never ran", job.name));
            }
        }
        Ok(())
    }

    fn keep(&mut self, containers: &[Container]) {
        self.settled.clear();
        for container in containers {
            let slot =
                self.slots.iter().find(|slot| self.world.pod_name(&slot.name) == container.pod).unwrap();
            let who = (container.pod.clone(), container.name.clone());
            // Containers are sorted by attempt, so the newest comes last.
            self.attempts.insert(who.clone(), container.attempt);
            if slot.sort != Sort::Crashing || container.name == "POD" {
                let settled = Settled { id: container.id.clone(), attempt: container.attempt };
                self.settled.insert(who, settled);
            }
        }
    }

    fn log_step(&self, what: &str) {
        println!("{:>8.3} {} {what}", self.begun.elapsed().as_secs_f64(), self.world.node);
    }
}

fn next(last: &mut u32) -> u32 {
    *last += 1;
    *last
}
