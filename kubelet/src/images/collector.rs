//! Removes unused images that this kubelet pulled, and remembers which these are.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::gc::{self, Record, Records, Unused};
use crate::disk;
use crate::metrics::Metrics;
use crate::observed::Timestamp;
use crate::options::ImageGc;
use crate::runtime::{self, Image, Runtime};

/// The file in the root directory with the records of images.
const FILE: &str = "images.json";

/// Why images are removed, for the metric `kubelet_image_garbage_collected_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Age,
    Space,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Space => "space",
        }
    }
}

/// Why a garbage collection failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum GcError {
    /// The engine could not list images or containers.
    #[error("{0}")]
    Engine(#[from] runtime::Error),
    /// There are not enough unused images.
    #[error(
        "Failed to garbage collect required amount of images. Attempted to free {wanted} bytes, but only found \
         {freed} bytes eligible to free."
    )]
    NotEnough { wanted: u64, freed: u64 },
}

/// The images that this kubelet pulled.
pub struct ImageCollector {
    runtime: Arc<dyn Runtime>,
    metrics: Arc<Metrics>,
    policy: ImageGc,
    path: PathBuf,
    records: Mutex<Records>,
    /// Serializes writes of the file, so that the latest records win.
    saving: tokio::sync::Mutex<()>,
    began: Timestamp,
}

impl ImageCollector {
    /// Loads the records of a root directory. Without them, no image is removed. Blocks.
    pub fn new(
        runtime: Arc<dyn Runtime>,
        policy: ImageGc,
        root_dir: &Path,
        metrics: Arc<Metrics>,
        began: Timestamp,
    ) -> Self {
        let path = root_dir.join(FILE);
        let records = load(&path).unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                let path = path.display();
                tracing::warn!(%path, %error, "cannot read the records of pulled images; all images stay");
            }
            Records::new()
        });
        Self {
            runtime,
            metrics,
            policy,
            path,
            records: Mutex::new(records),
            saving: tokio::sync::Mutex::default(),
            began,
        }
    }

    /// Records an image that this kubelet pulled, under its full name.
    pub async fn pulled(&self, id: &str, name: String, now: Timestamp) {
        let is_new = {
            let mut records = self.lock();
            let record = records.entry(id.to_owned()).or_insert_with(|| Record {
                names: BTreeSet::new(),
                first_detected: now,
                last_used: None,
            });
            record.names.insert(name)
        };
        if is_new {
            self.save().await;
        }
    }

    /// Applies the policy once. The amounts are those of the engine's file system, if they are known.
    ///
    /// # Errors
    /// If the engine does not answer, or has too few unused images.
    pub async fn collect(&self, disk: Option<(u64, u64)>, now: Timestamp) -> Result<(), GcError> {
        let (images, in_use) = self.detect(now).await?;
        let records = self.lock().clone();
        let unused = gc::unused(&records, &images, &in_use, self.policy.min_age, now);
        let is_old = |unused: &Unused| {
            records
                .get(&unused.id)
                .is_some_and(|record| gc::is_too_old(record, &self.policy, self.began, now))
        };
        let (old, rest): (Vec<Unused>, Vec<Unused>) = unused.into_iter().partition(is_old);
        self.remove(old, u64::MAX, Reason::Age).await;
        let wanted =
            disk.and_then(|(capacity, available)| gc::bytes_to_free(&self.policy, capacity, available));
        let Some(wanted) = wanted else { return Ok(()) };
        tracing::info!(
            bytes = wanted,
            "the disk of the engine is above imageGCHighThresholdPercent, removing images"
        );
        let freed = self.remove(rest, wanted, Reason::Space).await;
        if freed < wanted { Err(GcError::NotEnough { wanted, freed }) } else { Ok(()) }
    }

    /// Removes all unused images that are old enough, to reclaim disk space.
    ///
    /// # Errors
    /// If the engine does not answer.
    pub async fn remove_unused(&self, now: Timestamp) -> Result<(), GcError> {
        let (images, in_use) = self.detect(now).await?;
        let records = self.lock().clone();
        let unused = gc::unused(&records, &images, &in_use, self.policy.min_age, now);
        self.remove(unused, u64::MAX, Reason::Space).await;
        Ok(())
    }

    /// Updates the records from the engine.
    async fn detect(&self, now: Timestamp) -> Result<(Vec<Image>, BTreeSet<String>), runtime::Error> {
        let images = self.runtime.images().await?;
        let in_use = self.runtime.images_in_use().await?;
        let is_changed = {
            let mut records = self.lock();
            let detected = gc::detect(&records, &images, &in_use, now);
            std::mem::replace(&mut *records, detected.clone()) != detected
        };
        if is_changed {
            self.save().await;
        }
        Ok((images, in_use))
    }

    /// Removes images until enough is freed. Returns the freed bytes. The engine refuses to remove an image that a
    /// container has begun to use meanwhile.
    async fn remove(&self, unused: Vec<Unused>, enough_bytes: u64, reason: Reason) -> u64 {
        let mut freed_bytes = 0u64;
        for image in unused {
            if freed_bytes >= enough_bytes {
                break;
            }
            let mut removed = Ok(());
            for name in &image.names {
                // Another program may have built or pulled another image of this name meanwhile.
                match self.runtime.image(name).await {
                    Ok(Some(found)) if found.id == image.id => {}
                    Ok(_) => continue,
                    Err(error) => {
                        removed = Err(error);
                        break;
                    }
                }
                removed = self.runtime.remove_image(name).await;
                if removed.is_err() {
                    break;
                }
            }
            let names = image.names.join(" ");
            match removed {
                Ok(()) => {
                    tracing::info!(
                        image = image.id,
                        names,
                        bytes = image.size_bytes,
                        "removed an unused image"
                    );
                    self.metrics.image_garbage_collected(reason.as_str());
                    self.lock().remove(&image.id);
                    freed_bytes = freed_bytes.saturating_add(image.size_bytes);
                }
                Err(error) => {
                    tracing::warn!(image = image.id, names, %error, "cannot remove an unused image");
                }
            }
        }
        self.save().await;
        freed_bytes
    }

    /// Writes the records. Errors are logged.
    async fn save(&self) {
        let _turn = self.saving.lock().await;
        let records = self.lock().clone();
        let path = self.path.clone();
        if let Err(error) = disk::run(move || write(&path, &records)).await {
            let path = self.path.display();
            tracing::warn!(%path, %error, "cannot save which images this kubelet pulled");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn load(path: &Path) -> io::Result<Records> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

/// Writes the file atomically. Blocks.
fn write(path: &Path, records: &Records) -> io::Result<()> {
    let partial = path.with_extension("json.tmp");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
    file.write_all(&serde_json::to_vec(records)?)?;
    file.sync_all()?;
    drop(file);
    std::fs::rename(&partial, path)
}

#[cfg(test)]
mod tests {
    //! Tests of garbage collection on a fake engine.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::metrics::Running;
    use crate::runtime::fake::Fake;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    async fn pull(fake: &Fake, collector: &ImageCollector, name: &str) -> Image {
        use futures_util::StreamExt as _;
        fake.publish(name, None);
        fake.pull(name, None).await.unwrap().collect::<Vec<_>>().await;
        let image = fake.image(name).await.unwrap().unwrap();
        collector.pulled(&image.id, name.to_owned(), at(0)).await;
        image
    }

    #[tokio::test(start_paused = true)]
    async fn pulled_images_are_removed_from_a_full_disk_also_after_a_restart() {
        let (fake, root) = (Fake::new("n1"), tempfile::tempdir().unwrap());
        let metrics = Arc::new(Metrics::new("n1", "v1.36.0"));
        let open = || {
            let runtime: Arc<dyn Runtime> = Arc::new(fake.clone());
            ImageCollector::new(runtime, ImageGc::default(), root.path(), metrics.clone(), at(0))
        };
        let collector = open();
        for name in ["quay.io/a:1", "quay.io/b:1"] {
            pull(&fake, &collector, name).await;
        }
        let mib = 1 << 20;
        // Each image has 1 MiB, and 1 MiB must be freed.
        let full = Some((10 * mib, mib));
        collector.collect(full, at(60)).await.unwrap_err();
        assert!(fake.image("quay.io/a:1").await.unwrap().is_some(), "it is too young");
        drop(collector);

        let collector = open();
        collector.collect(Some((10 * mib, 5 * mib)), at(1000)).await.unwrap();
        assert!(fake.image("quay.io/a:1").await.unwrap().is_some(), "the disk has room");
        collector.collect(full, at(1000)).await.unwrap();
        let left = [fake.image("quay.io/a:1").await.unwrap(), fake.image("quay.io/b:1").await.unwrap()];
        assert_eq!(left.iter().flatten().count(), 1);
        let error = collector.collect(Some((100 * mib, 0)), at(1000)).await.unwrap_err();
        assert!(error.to_string().contains("only found 1048576 bytes"), "{error}");
        // Images that this kubelet did not pull stay.
        assert!(fake.image("coracle/busybox:1").await.unwrap().is_some());
        let text = metrics.text(Running::default());
        assert!(text.contains("kubelet_image_garbage_collected_total{reason=\"space\"} 2"), "{text}");
    }
}
