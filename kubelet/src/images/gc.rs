//! Image garbage collection: which images are removed, and when. Pure: the clock is an argument.
//!
//! The policy is that of the stock kubelet (`pkg/kubelet/images/image_gc_manager.go`), with one restriction: only images
//! that this kubelet pulled are removed, and only by the names under which it pulled them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::name::ImageName;
use crate::observed::Timestamp;
use crate::options::ImageGc;
use crate::runtime::Image;

/// What the kubelet knows about an image that it pulled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The full names under which the kubelet pulled the image, such as `docker.io/library/nginx:1`.
    pub names: BTreeSet<String>,
    /// When the kubelet pulled the image.
    pub first_detected: Timestamp,
    /// When a container last used the image. `None` if none has.
    pub last_used: Option<Timestamp>,
}

/// The images that the kubelet pulled, by image id.
pub type Records = BTreeMap<String, Record>;

/// An image to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    pub id: String,
    /// The names to remove, or the id of an image without tags.
    pub names: Vec<String>,
    /// Size in bytes. 0 if the image has other names too and therefore stays.
    pub size_bytes: u64,
}

impl Unused {
    /// `None` if the image has only names that this kubelet did not pull.
    fn of(image: &Image, record: &Record) -> Option<Self> {
        let is_own = |tag: &&String| {
            ImageName::parse(tag).is_ok_and(|name| record.names.contains(&name.to_pull().to_string()))
        };
        let own: Vec<String> = image.tags.iter().filter(is_own).cloned().collect();
        let (names, size_bytes) = match (own.len(), image.tags.len()) {
            (_, 0) => (vec![image.id.clone()], image.size_bytes),
            (0, _) => return None,
            (own_tags, tags) => (own, if own_tags == tags { image.size_bytes } else { 0 }),
        };
        Some(Self { id: image.id.clone(), names, size_bytes })
    }
}

/// Updates the records: drops images that no longer exist, and notes which are in use.
pub fn detect(records: &Records, images: &[Image], in_use: &BTreeSet<String>, now: Timestamp) -> Records {
    let exists = |id: &String| images.iter().any(|image| image.id == *id);
    let known = records.iter().filter(|(id, _)| exists(id));
    let updated = known.map(|(id, record)| {
        let last_used = if in_use.contains(id) { Some(now) } else { record.last_used };
        (id.clone(), Record { last_used, ..record.clone() })
    });
    updated.collect()
}

/// The images that may be removed, the least recently used first: pulled by this kubelet, used by no container, and old
/// enough.
pub fn unused(
    records: &Records,
    images: &[Image],
    in_use: &BTreeSet<String>,
    min_age: Duration,
    now: Timestamp,
) -> Vec<Unused> {
    let candidates = images.iter().filter(|image| !in_use.contains(&image.id));
    let candidates = candidates.filter_map(|image| {
        let record = records.get(&image.id).filter(|record| age(record.first_detected, now) >= min_age)?;
        Some((record, Unused::of(image, record)?))
    });
    let mut candidates: Vec<(&Record, Unused)> = candidates.collect();
    candidates.sort_by_key(|(record, unused)| (record.last_used, record.first_detected, unused.id.clone()));
    candidates.into_iter().map(|(_, unused)| unused).collect()
}

/// Whether an image is unused for longer than the maximum age. `began` is when the kubelet began to observe: images are
/// not removed for their age before it has observed for that long, as in the stock kubelet.
pub fn is_too_old(record: &Record, policy: &ImageGc, began: Timestamp, now: Timestamp) -> bool {
    let since = record.last_used.unwrap_or(record.first_detected);
    !policy.max_age.is_zero() && age(began, now) > policy.max_age && age(since, now) > policy.max_age
}

/// How many bytes must be freed on a disk with this capacity. `None` if its usage is below the high threshold,
/// the threshold is 100 %, or the capacity is 0.
pub fn bytes_to_free(policy: &ImageGc, capacity: u64, available: u64) -> Option<u64> {
    let available = available.min(capacity);
    let free_percent = u128::from(available) * 100 / u128::from(capacity.max(1));
    let used_percent = 100u128.saturating_sub(free_percent);
    if capacity == 0 || policy.high_percent >= 100 || used_percent < u128::from(policy.high_percent) {
        return None;
    }
    let wanted = u128::from(capacity) * u128::from(100 - policy.low_percent.min(100)) / 100;
    Some(u64::try_from(wanted).unwrap_or(u64::MAX).saturating_sub(available))
}

fn age(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    //! Tests of the policy.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn image(id: &str) -> Image {
        Image { id: id.to_owned(), size_bytes: 10, ..Image::default() }
    }

    fn record(first_detected: i64, last_used: Option<i64>) -> Record {
        let names = BTreeSet::from(["docker.io/team/app:1".to_owned()]);
        Record { names, first_detected: at(first_detected), last_used: last_used.map(at) }
    }

    #[test]
    fn only_pulled_and_unused_images_are_removed_least_recently_used_first() {
        let images = ["old", "never", "recent", "used", "young", "foreign"].map(image);
        let records: Records = [
            ("old", record(0, Some(10))),
            ("never", record(5, None)),
            ("recent", record(0, Some(50))),
            ("used", record(0, Some(60))),
            ("young", record(99, None)),
            ("gone", record(0, None)),
        ]
        .map(|(id, record)| (id.to_owned(), record))
        .into();
        let in_use = BTreeSet::from(["used".to_owned()]);
        let unused = unused(&records, &images, &in_use, Duration::from_secs(10), at(100));
        let ids: Vec<&str> = unused.iter().map(|unused| unused.id.as_str()).collect();
        assert_eq!(ids, ["never", "old", "recent"]);
        let now = detect(&records, &images, &in_use, at(100));
        assert_eq!(now["used"].last_used, Some(at(100)));
        assert_eq!((now["old"].last_used, now.contains_key("gone")), (Some(at(10)), false));
    }

    #[test]
    fn names_of_other_users_of_the_engine_stay() {
        let with =
            |tags: &[&str]| Image { tags: tags.iter().map(|tag| (*tag).to_owned()).collect(), ..image("i") };
        let of = |tags: &[&str]| {
            let unused = Unused::of(&with(tags), &record(0, None))?;
            Some((unused.names.join(" "), unused.size_bytes))
        };
        assert_eq!(of(&["team/app:1"]), Some(("team/app:1".to_owned(), 10)));
        assert_eq!(of(&["team/app:1", "mine:dev"]), Some(("team/app:1".to_owned(), 0)));
        assert_eq!(of(&["mine:dev"]), None);
        // A newer pull has taken its name.
        assert_eq!(of(&[]), Some(("i".to_owned(), 10)));
    }

    #[test]
    fn disk_usage_is_reduced_from_the_high_to_the_low_threshold() {
        let policy = ImageGc::default();
        for (available, expected) in [(16, None), (15, Some(5)), (1, Some(19)), (0, Some(20)), (500, None)] {
            assert_eq!(bytes_to_free(&policy, 100, available), expected, "{available}");
        }
        assert_eq!(bytes_to_free(&policy, 0, 0), None);
        assert_eq!(bytes_to_free(&ImageGc { high_percent: 100, ..policy }, 100, 0), None);
    }

    #[test]
    fn maximum_age_counts_from_the_last_use_and_the_start_of_the_kubelet() {
        let policy = ImageGc { max_age: Duration::from_secs(50), ..ImageGc::default() };
        for (last_used, began, expected) in
            [(Some(10), 0, true), (Some(60), 0, false), (None, 0, true), (Some(10), 60, false)]
        {
            assert_eq!(is_too_old(&record(0, last_used), &policy, at(began), at(100)), expected);
        }
        assert!(!is_too_old(&record(0, None), &ImageGc::default(), at(0), at(100)));
    }
}
