//! Checks the order in which scheduling gates are removed. Pure.

use std::collections::HashSet;

/// The gates that an update removes, in order.
pub fn taken<'a>(old: &[&'a str], new: &[&str]) -> Vec<&'a str> {
    let left: HashSet<&str> = new.iter().copied().collect();
    old.iter().copied().filter(|gate| !left.contains(gate)).collect()
}

/// The reason why an update of gates is invalid. Gates for which `is_ordered` is true must be removed in order.
pub fn out_of_turn(old: &[&str], new: &[&str], is_ordered: impl Fn(&str) -> bool) -> Option<String> {
    let left: HashSet<&str> = new.iter().copied().collect();
    let mut behind = old.iter().copied().skip_while(|gate| !left.contains(gate));
    let first = behind.next()?;
    if let Some(early) = behind.clone().find(|gate| !left.contains(gate) && is_ordered(gate)) {
        return Some(format!("gate {early} may not be removed yet: gate {first} is next"));
    }
    let kept = old.iter().filter(|gate| left.contains(*gate));
    let is_moved = new.iter().any(|gate| is_ordered(gate)) && !kept.eq(new);
    is_moved.then(|| format!("gates must keep their order: gate {first} is next"))
}

#[cfg(test)]
mod tests {
    //! Tests of removal of gates in and out of order.
    use super::*;

    #[test]
    fn the_first_is_taken_off_first() {
        let ordered = |gate: &str| gate == "a" || gate == "b";
        for (old, new, expected) in [
            ("a b mine", "a b mine", None),
            ("a b mine", "b mine", None),
            ("a b mine", "mine", None),
            ("a b mine", "", None),
            ("b", "", None),
            // A gate that the user set can be removed in any order.
            ("a b mine", "a b", None),
            ("a mine yours", "a yours", None),
            ("mine yours", "yours mine", None),
            ("a b mine", "a mine", Some("gate b may not be removed yet: gate a is next")),
            ("a b mine", "a", Some("gate b may not be removed yet: gate a is next")),
            ("mine a", "mine", Some("gate a may not be removed yet: gate mine is next")),
            ("a b mine", "b a mine", Some("gates must keep their order: gate a is next")),
            ("a b mine", "mine b", Some("gates must keep their order: gate b is next")),
            // No gate may be added; validation of the Pod rejects that.
            ("a", "a a", Some("gates must keep their order: gate a is next")),
        ] {
            let split = |text: &'static str| text.split_whitespace().collect::<Vec<_>>();
            let said = out_of_turn(&split(old), &split(new), ordered);
            assert_eq!(said.as_deref(), expected, "{old} -> {new}");
        }
        assert_eq!(taken(&["a", "b", "c"], &["b"]), ["a", "c"]);
    }
}
