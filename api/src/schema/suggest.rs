//! Finds the known name that is most similar to an unknown one.

/// Returns the candidate that is most similar to `name`, or `None` if none is similar enough.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = folded(name);
    candidates
        .filter_map(|candidate| {
            let known = folded(candidate);
            let distance = strsim::damerau_levenshtein(&wanted, &known);
            let longest = wanted.chars().count().max(known.chars().count());
            // Up to a third of the letters may differ. A plural or a prefix of a long name is accepted too.
            let extends = longest >= 5 && (known.starts_with(&wanted) || wanted.starts_with(&known));
            let near = distance * 3 <= longest || (extends && distance <= 4);
            near.then_some((distance, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns the name in lower case without `_` and `-`, so that `host_path` matches `hostPath`.
fn folded(name: &str) -> String {
    // Limit the length, so that the comparison stays fast.
    name.chars().filter(|c| !matches!(c, '_' | '-')).take(64).flat_map(char::to_lowercase).collect()
}
