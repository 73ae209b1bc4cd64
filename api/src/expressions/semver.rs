//! CEL library for semantic versions: `semver('1.2.3').isLessThan(semver('1.10.0'))`.

use std::cmp::Ordering;

use cel::arguments::{own, text};
use cel::{Budget, Error, Function, Kind, Returns, Type, Value, function, method};

use super::foreign;

const NAME: &str = "kubernetes.Semver";
const TEXT: &[Kind] = &[Kind::Text];
const LOOSE: &[Kind] = &[Kind::Text, Kind::Bool];
const ONE: &[Kind] = &[Kind::Opaque(NAME)];
const TWO: &[Kind] = &[Kind::Opaque(NAME), Kind::Opaque(NAME)];
const BOOL: Returns = Returns::Is(Type::Bool);
const INT: Returns = Returns::Is(Type::Int);
const VERSION: Returns = Returns::Is(Type::Opaque(NAME));

/// A semantic version: major, minor, patch, and the pre-release identifiers.
#[derive(Debug, PartialEq, Eq)]
struct Version {
    numbers: [u64; 3],
    before: Vec<String>,
}

foreign!(Version, NAME);

pub(super) static FUNCTIONS: &[Function] = &[
    function("semver", TEXT, VERSION, made),
    function("semver", LOOSE, VERSION, made),
    function("isSemver", TEXT, BOOL, |of, budget| Ok(Value::Bool(read(of, budget)?.is_some()))),
    function("isSemver", LOOSE, BOOL, |of, budget| Ok(Value::Bool(read(of, budget)?.is_some()))),
    method("major", ONE, INT, |of, _| number(of, 0)),
    method("minor", ONE, INT, |of, _| number(of, 1)),
    method("patch", ONE, INT, |of, _| number(of, 2)),
    method("isLessThan", TWO, BOOL, |of, budget| Ok(Value::Bool(compare(of, budget)?.is_lt()))),
    method("isGreaterThan", TWO, BOOL, |of, budget| Ok(Value::Bool(compare(of, budget)?.is_gt()))),
    method("compareTo", TWO, INT, |of, budget| Ok(Value::Int(compare(of, budget)? as i64))),
];

fn made(of: &[Value], budget: &mut Budget) -> Result<Value, Error> {
    let wrong = || Error::failed(format!("invalid semantic version {:?}", text(of, 0).unwrap_or_default()));
    Ok(Value::opaque(read(of, budget)?.ok_or_else(wrong)?))
}

fn number(of: &[Value], at: usize) -> Result<Value, Error> {
    let version: &Version = own(of, 0)?;
    i64::try_from(version.numbers[at]).map(Value::Int).map_err(|_| Error::failed("integer overflow"))
}

fn compare(of: &[Value], budget: &mut Budget) -> Result<Ordering, Error> {
    let (one, two): (&Version, &Version) = (own(of, 0)?, own(of, 1)?);
    budget.charge(one.before.len().min(two.before.len()))?;
    Ok(one.cmp(two))
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let part = |one: &String, two: &String| match (one.parse::<u64>(), two.parse::<u64>()) {
            (Ok(one), Ok(two)) => one.cmp(&two),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => one.cmp(two),
        };
        self.numbers.cmp(&other.numbers).then_with(|| {
            match (self.before.is_empty(), other.before.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => {
                    let pairs = self.before.iter().zip(&other.before);
                    let first = pairs.map(|(one, two)| part(one, two)).find(|order| order.is_ne());
                    first.unwrap_or_else(|| self.before.len().cmp(&other.before.len()))
                }
            }
        })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Parses the first argument. If the second argument is true, `v1.2` and `01.2.3` are valid too.
fn read(of: &[Value], budget: &mut Budget) -> Result<Option<Version>, Error> {
    let is_loose = matches!(of.get(1), Some(Value::Bool(true)));
    let text = text(of, 0)?;
    budget.charge_bytes(text.len())?;
    Ok(version(text, is_loose))
}

fn version(text: &str, is_loose: bool) -> Option<Version> {
    let text = if is_loose { text.strip_prefix('v').unwrap_or(text) } else { text };
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (text, before) = text.split_once('-').map_or((text, None), |(text, before)| (text, Some(before)));
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if !build.is_none_or(|build| build.split('.').all(is_word)) {
        return None;
    }
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let is_padded = |word: &str| word.len() > 1 && word.starts_with('0');
    let mut numbers = [0; 3];
    let mut count = 0;
    for word in text.split('.') {
        if !is_number(word) || (is_padded(word) && !is_loose) {
            return None;
        }
        *numbers.get_mut(count)? = word.parse().ok()?;
        count += 1;
    }
    let before: Vec<String> =
        before.into_iter().flat_map(|before| before.split('.')).map(str::to_owned).collect();
    let is_fine = before.iter().all(|word| is_word(word) && !(is_number(word) && is_padded(word)));
    (is_fine && (count == 3 || is_loose)).then_some(Version { numbers, before })
}
