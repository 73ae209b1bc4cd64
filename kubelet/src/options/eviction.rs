//! Settings of the eviction manager: eviction signals, thresholds, grace periods and minimum reclaims.
//!
//! Names and defaults are those of the stock kubelet (KubeletConfiguration v1beta1, `pkg/kubelet/eviction`).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use api::quantity::{Format, Quantity};
use serde_json::{Map, Value};

/// Thousandths of a percent in 100 %.
const WHOLE: u32 = 100_000;

/// What the eviction manager observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// Available memory in bytes.
    MemoryAvailable,
    /// Available space of the file system of the root directory, in bytes.
    NodeFsAvailable,
    /// Free inodes of the file system of the root directory.
    NodeFsInodesFree,
    /// Available space of the engine's file system, in bytes.
    ImageFsAvailable,
    /// Free inodes of the engine's file system.
    ImageFsInodesFree,
    /// Processes that can still be created.
    PidAvailable,
}

impl Signal {
    /// All signals.
    pub const ALL: [Self; 6] = [
        Self::MemoryAvailable,
        Self::NodeFsAvailable,
        Self::NodeFsInodesFree,
        Self::ImageFsAvailable,
        Self::ImageFsInodesFree,
        Self::PidAvailable,
    ];

    /// The stock name, such as `memory.available`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MemoryAvailable => "memory.available",
            Self::NodeFsAvailable => "nodefs.available",
            Self::NodeFsInodesFree => "nodefs.inodesFree",
            Self::ImageFsAvailable => "imagefs.available",
            Self::ImageFsInodesFree => "imagefs.inodesFree",
            Self::PidAvailable => "pid.available",
        }
    }

    /// The notation of amounts of this signal.
    pub fn format(self) -> Format {
        match self {
            Self::MemoryAvailable | Self::NodeFsAvailable | Self::ImageFsAvailable => Format::BinarySi,
            Self::NodeFsInodesFree | Self::ImageFsInodesFree | Self::PidAvailable => Format::DecimalSi,
        }
    }

    /// The signal of this name. `None` for `containerfs` signals, whose thresholds the stock kubelet replaces by those of
    /// the file system on which the containers are.
    ///
    /// # Errors
    /// If there is no such signal. The message lists the names.
    pub fn parse(name: &str) -> Result<Option<Self>, String> {
        if matches!(name, "containerfs.available" | "containerfs.inodesFree") {
            return Ok(None);
        }
        let found = Self::ALL.into_iter().find(|signal| signal.as_str() == name);
        found.map(Some).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            format!("names no eviction signal: \"{name}\"; write one of {names}")
        })
    }
}

/// An amount of a resource, absolute or relative to its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdValue {
    /// An absolute amount: bytes, inodes or processes.
    Amount(u64),
    /// Thousandths of a percent of the capacity.
    Share(u32),
}

impl ThresholdValue {
    /// The amount for a resource of this capacity.
    pub fn of(self, capacity: u64) -> u64 {
        match self {
            Self::Amount(amount) => amount,
            Self::Share(share) => {
                let amount = u128::from(capacity) * u128::from(share) / u128::from(WHOLE);
                u64::try_from(amount).unwrap_or(u64::MAX)
            }
        }
    }

    /// The value as the configuration writes it: `10%` or `100Mi`.
    pub fn to_text(self, signal: Signal) -> String {
        match self {
            Self::Amount(amount) => {
                Quantity::from_units(i64::try_from(amount).unwrap_or(i64::MAX), signal.format()).to_string()
            }
            Self::Share(share) => {
                let text = format!("{}.{:03}", share / 1000, share % 1000);
                format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }

    /// Parses a quantity such as `100Mi`, or a percentage such as `10%` or `7.5%`.
    ///
    /// # Errors
    /// If the text is neither, or not positive, or more than 100 %.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(number) = text.strip_suffix('%') {
            let share = share(number).filter(|share| *share <= WHOLE);
            return share.map(Self::Share).ok_or_else(|| "is not a percentage from 0% to 100%".to_owned());
        }
        let wanted = || "is neither a quantity nor a percentage; write for example 100Mi or 10%".to_owned();
        let quantity: Quantity = text.parse().map_err(|_| wanted())?;
        match u64::try_from(quantity.units()) {
            Ok(amount) if amount > 0 => Ok(Self::Amount(amount)),
            _ => Err("is not positive".to_owned()),
        }
    }

    /// Whether a threshold with this value is ignored: `0%` and `100%` disable a threshold, as in the stock kubelet.
    fn is_disabled(self) -> bool {
        matches!(self, Self::Share(0 | WHOLE))
    }
}

/// Parses a decimal number with at most three decimal places, in thousandths.
fn share(number: &str) -> Option<u32> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if part.len() > 3 || !part.chars().all(|c| c.is_ascii_digit()) || whole.starts_with('+') {
        return None;
    }
    let part: u32 = format!("{part:0<3}").parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(part)
}

/// A threshold: the node has a shortage while less than this value is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    pub signal: Signal,
    pub value: ThresholdValue,
    /// How long the shortage lasts before pods are evicted. Zero for a hard threshold.
    pub grace: Duration,
    /// How much more than the value must be available before the shortage is over.
    pub minimum_reclaim: Option<ThresholdValue>,
}

impl Threshold {
    /// Whether pods are evicted at once, with the minimum grace period. A soft threshold without a grace period is hard
    /// too, as in the stock kubelet.
    pub fn is_hard(&self) -> bool {
        self.grace.is_zero()
    }
}

/// Maps of the configuration, by the name of the signal.
pub type Texts = BTreeMap<String, String>;

/// The settings as flags and configuration file give them. `None` for the default.
#[derive(Clone, Debug, Default)]
pub struct EvictionTexts {
    /// `evictionHard`.
    pub hard: Option<Texts>,
    /// `evictionSoft`.
    pub soft: Option<Texts>,
    /// `evictionSoftGracePeriod`.
    pub soft_grace: Option<Texts>,
    /// `evictionMinimumReclaim`.
    pub minimum_reclaim: Option<Texts>,
    /// `mergeDefaultEvictionSettings`: signals that `hard` lacks keep their default.
    pub merge_defaults: bool,
}

/// The settings of the eviction manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Hard thresholds, then soft ones.
    pub thresholds: Vec<Threshold>,
    /// Longest grace period of pods that a soft threshold evicts.
    pub max_pod_grace: Duration,
    /// How long a pressure condition stays after the shortage.
    pub transition_period: Duration,
}

/// The hard thresholds of a stock kubelet on Linux, in thousandths of a percent where they are relative.
const DEFAULTS: [(Signal, ThresholdValue); 5] = [
    (Signal::MemoryAvailable, ThresholdValue::Amount(100 << 20)),
    (Signal::NodeFsAvailable, ThresholdValue::Share(10_000)),
    (Signal::NodeFsInodesFree, ThresholdValue::Share(5_000)),
    (Signal::ImageFsAvailable, ThresholdValue::Share(15_000)),
    (Signal::ImageFsInodesFree, ThresholdValue::Share(5_000)),
];

impl Default for Eviction {
    /// The stock defaults: hard thresholds only, a transition period of five minutes.
    fn default() -> Self {
        let hard =
            |(signal, value)| Threshold { signal, value, grace: Duration::ZERO, minimum_reclaim: None };
        Self {
            thresholds: DEFAULTS.into_iter().map(hard).collect(),
            max_pod_grace: Duration::ZERO,
            transition_period: Duration::from_secs(5 * 60),
        }
    }
}

impl Eviction {
    /// The amount of a resource that hard thresholds reserve: allocatable is less by it. Zero without a threshold.
    pub fn reserved(&self, signal: Signal, capacity: u64) -> u64 {
        let of_signal = self.thresholds.iter().filter(|threshold| threshold.signal == signal);
        let hard = of_signal.filter(|threshold| threshold.is_hard());
        hard.map(|threshold| threshold.value.of(capacity)).max().unwrap_or(0).min(capacity)
    }

    /// A map of the KubeletConfiguration, for `/configz`.
    pub fn to_map(&self, part: impl Fn(&Threshold) -> Option<String>) -> Value {
        let entries = self.thresholds.iter().filter_map(|threshold| {
            Some((threshold.signal.as_str().to_owned(), Value::String(part(threshold)?)))
        });
        Value::Object(entries.collect::<Map<_, _>>())
    }
}

impl EvictionTexts {
    /// Parses the thresholds.
    ///
    /// # Errors
    /// All mistakes, each with the field, the signal and the value.
    pub fn thresholds(&self) -> Result<Vec<Threshold>, Vec<String>> {
        let mut mistakes = Vec::new();
        let parsed = |field: &str, texts: &Option<Texts>, mistakes: &mut Vec<String>| {
            parse(field, texts.as_ref(), ThresholdValue::parse, mistakes)
        };
        let mut hard = match &self.hard {
            None => DEFAULTS.into_iter().collect(),
            Some(_) => parsed("--eviction-hard (evictionHard)", &self.hard, &mut mistakes),
        };
        if self.merge_defaults {
            for (signal, value) in DEFAULTS {
                hard.entry(signal).or_insert(value);
            }
        }
        let soft = parsed("--eviction-soft (evictionSoft)", &self.soft, &mut mistakes);
        let reclaims = parsed(
            "--eviction-minimum-reclaim (evictionMinimumReclaim)",
            &self.minimum_reclaim,
            &mut mistakes,
        );
        let graces = self.soft_grace.as_ref();
        let graces = parse(
            "--eviction-soft-grace-period (evictionSoftGracePeriod)",
            graces,
            command::duration,
            &mut mistakes,
        );
        let whole = |(signal, value), grace| Threshold {
            signal,
            value,
            grace,
            minimum_reclaim: reclaims.get(&signal).copied(),
        };
        let is_enabled = |(_, value): &(Signal, ThresholdValue)| !value.is_disabled();
        let mut thresholds: Vec<Threshold> =
            hard.into_iter().filter(is_enabled).map(|entry| whole(entry, Duration::ZERO)).collect();
        for entry in soft.into_iter().filter(is_enabled) {
            match graces.get(&entry.0) {
                Some(grace) => thresholds.push(whole(entry, *grace)),
                None => mistakes.push(format!(
                    "--eviction-soft-grace-period (evictionSoftGracePeriod) has no {}, but evictionSoft does; write for \
                     example 1m30s",
                    entry.0
                )),
            }
        }
        if mistakes.is_empty() { Ok(thresholds) } else { Err(mistakes) }
    }
}

/// Parses a map of the configuration.
fn parse<T>(
    field: &str,
    texts: Option<&Texts>,
    read: impl Fn(&str) -> Result<T, String>,
    mistakes: &mut Vec<String>,
) -> BTreeMap<Signal, T> {
    let mut found = BTreeMap::new();
    for (name, text) in texts.into_iter().flatten() {
        let value = read(text).map_err(|wanted| format!("{field}: {name}: \"{text}\" {wanted}"));
        let signal = Signal::parse(name).map_err(|wanted| format!("{field} {wanted}"));
        match (signal, value) {
            (Ok(Some(signal)), Ok(value)) => drop(found.insert(signal, value)),
            (Ok(None), Ok(_)) => {}
            (Err(mistake), _) | (_, Err(mistake)) => mistakes.push(mistake),
        }
    }
    found
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
