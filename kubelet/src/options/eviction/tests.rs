//! Parsing of thresholds.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn texts(entries: &[(&str, &str)]) -> Option<Texts> {
    Some(entries.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
}

#[test]
fn values_are_quantities_or_percentages() {
    for (text, of_1000, shown) in
        [("100Mi", 100 << 20, "100Mi"), ("10%", 100, "10%"), ("7.5%", 75, "7.5%"), ("1k", 1000, "1k")]
    {
        let value = ThresholdValue::parse(text).unwrap();
        assert_eq!((value.of(1000), value.to_text(Signal::MemoryAvailable)), (of_1000, shown.to_owned()));
    }
    for wrong in ["", "x", "0", "-1Mi", "101%", "-1%", "1.2345%", "%", "+1%"] {
        ThresholdValue::parse(wrong).unwrap_err();
    }
}

#[test]
fn defaults_are_those_of_the_stock_kubelet() {
    let default = Eviction::default();
    assert_eq!(EvictionTexts::default().thresholds().unwrap(), default.thresholds);
    let shown: Vec<String> =
        default.thresholds.iter().map(|t| format!("{}<{}", t.signal, t.value.to_text(t.signal))).collect();
    assert_eq!(
        shown.join(","),
        "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%"
    );
    assert_eq!(default.reserved(Signal::NodeFsAvailable, 1000), 100);
    assert_eq!(default.reserved(Signal::MemoryAvailable, 1000), 1000, "at most the whole capacity");
    assert_eq!(default.reserved(Signal::PidAvailable, 1000), 0);
}

#[test]
fn given_hard_thresholds_replace_the_defaults() {
    let hard =
        texts(&[("memory.available", "1Gi"), ("nodefs.available", "0%"), ("containerfs.available", "5%")]);
    let given = EvictionTexts { hard, ..EvictionTexts::default() };
    let signals = |texts: &EvictionTexts| -> Vec<Signal> {
        texts.thresholds().unwrap().into_iter().map(|threshold| threshold.signal).collect()
    };
    assert_eq!(signals(&given), [Signal::MemoryAvailable]);
    let merged = EvictionTexts { merge_defaults: true, ..given };
    assert_eq!(
        signals(&merged),
        [
            Signal::MemoryAvailable,
            Signal::NodeFsInodesFree,
            Signal::ImageFsAvailable,
            Signal::ImageFsInodesFree
        ]
    );
    let none = EvictionTexts { hard: texts(&[]), ..EvictionTexts::default() };
    assert_eq!(signals(&none), []);
}

#[test]
fn soft_thresholds_have_grace_periods_and_minimum_reclaims() {
    let all = EvictionTexts {
        hard: texts(&[("memory.available", "100Mi")]),
        soft: texts(&[("memory.available", "300Mi")]),
        soft_grace: texts(&[("memory.available", "1m30s")]),
        minimum_reclaim: texts(&[("memory.available", "50Mi")]),
        merge_defaults: false,
    };
    let found = all.thresholds().unwrap();
    assert_eq!(found.len(), 2);
    assert!(found[0].is_hard() && !found[1].is_hard());
    assert_eq!(found[1].grace, Duration::from_secs(90));
    assert_eq!(found[1].minimum_reclaim, Some(ThresholdValue::Amount(50 << 20)));
}

#[test]
fn all_mistakes_name_field_signal_and_value() {
    let all = EvictionTexts {
        hard: texts(&[("memory.available", "lots"), ("memory.free", "1Gi")]),
        soft: texts(&[("nodefs.available", "20%")]),
        soft_grace: texts(&[("imagefs.available", "soon")]),
        ..EvictionTexts::default()
    };
    let mistakes = all.thresholds().unwrap_err();
    for part in [
        "--eviction-hard (evictionHard): memory.available: \"lots\" is neither a quantity nor a percentage",
        "--eviction-hard (evictionHard) names no eviction signal: \"memory.free\"; write one of memory.available,",
        "--eviction-soft-grace-period (evictionSoftGracePeriod): imagefs.available: \"soon\"",
        "--eviction-soft-grace-period (evictionSoftGracePeriod) has no nodefs.available",
    ] {
        assert!(mistakes.iter().any(|mistake| mistake.starts_with(part)), "{part}: {mistakes:?}");
    }
}
