//! Generates damaged manifests: typing errors, wrong values and hostile input.

use serde_json::{Value, json};

/// Valid manifests in all supported forms.
pub const SEEDS: [&str; 6] = [
    include_str!("pod.yaml"),
    include_str!("stream.yaml"),
    include_str!("manifest.yaml"),
    include_str!("bound_pods.json"),
    include_str!("list.json"),
    include_str!("v1beta3.yaml"),
];

/// Syntax with a special meaning.
const TOKENS: [&str; 40] = [
    "---\n",
    "...\n",
    "- ",
    ": ",
    "\n",
    "\t",
    " ",
    "  ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\"",
    "'",
    "|",
    ">",
    "&a ",
    "*a",
    "<<: ",
    "!!binary ",
    "!!str ",
    "!x ",
    "?",
    "#",
    "%YAML 1.2\n",
    "\0",
    "\u{feff}",
    "\u{2028}",
    "é",
    "\r\n",
    "~",
    "null",
    "true",
    "yes",
    "0644",
    "1e999",
    ".nan",
    "-9223372036854775809",
    "\\u0000",
];

/// A deterministic random number generator (splitmix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, or 0 if `end` is 0.
    fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.next() % end as u64) as usize }
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// A damaged manifest.
pub fn manifest(random: &mut Random) -> Vec<u8> {
    let mut bytes = match random.below(8) {
        0 => noise(random),
        1 | 2 => values(random).into_bytes(),
        _ => random.pick(&SEEDS).as_bytes().to_vec(),
    };
    for _ in 0..random.below(4) {
        damage(&mut bytes, random);
    }
    bytes
}

fn noise(random: &mut Random) -> Vec<u8> {
    let length = random.below(200);
    match random.below(2) {
        0 => (0..length).map(|_| random.next() as u8).collect(),
        _ => (0..length).flat_map(|_| random.pick(&TOKENS).bytes()).collect(),
    }
}

/// One change of the bytes.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let end = (at + random.below(40)).min(bytes.len());
    match random.below(9) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let copied = bytes[at..end].to_vec();
            let to = random.below(bytes.len() + 1);
            bytes.splice(to..to, copied);
        }
        3 => {
            let byte = random.next() as u8;
            bytes.splice(at..at, [byte]);
        }
        4 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        5 => {
            let other = random.pick(&SEEDS).as_bytes();
            let from = random.below(other.len());
            let to = (from + random.below(80)).min(other.len());
            bytes.splice(at..end, other[from..to].iter().copied());
        }
        6 => lines(bytes, random),
        _ => {
            let token = random.pick(&TOKENS).bytes();
            bytes.splice(at..at, token);
        }
    }
}

/// Removes, repeats or indents a line.
fn lines(bytes: &mut Vec<u8>, random: &mut Random) {
    let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let at = random.below(lines.len());
    if lines.is_empty() {
        return;
    }
    match random.below(4) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        2 => {
            let other = random.below(lines.len());
            lines.swap(at, other);
        }
        _ => lines[at].splice(0..0, b"  ".iter().copied().take(1 + random.below(2))).for_each(drop),
    }
    *bytes = lines.concat();
}

/// A manifest with well-formed but wrong values.
fn values(random: &mut Random) -> String {
    let text = random.pick(&SEEDS);
    let Ok(Some(mut value)) = api::decode::value(text.as_bytes()) else { return (*text).to_owned() };
    for _ in 0..1 + random.below(4) {
        let count = nodes(&value);
        let mut chosen = random.below(count);
        change(&mut value, &mut chosen, random);
    }
    if random.below(2) == 0 { value.to_string() } else { serde_yaml::to_string(&value).unwrap_or_default() }
}

fn nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(nodes).sum::<usize>(),
        Value::Object(fields) => fields.values().map(nodes).sum::<usize>(),
        _ => 0,
    }
}

/// Changes the node number `chosen` in traversal order.
fn change(value: &mut Value, chosen: &mut usize, random: &mut Random) {
    if *chosen == 0 {
        *chosen = usize::MAX;
        return replace(value, random);
    }
    *chosen -= 1;
    let children: Vec<&mut Value> = match value {
        Value::Array(values) => values.iter_mut().collect(),
        Value::Object(fields) => fields.values_mut().collect(),
        _ => Vec::new(),
    };
    for child in children {
        if *chosen == usize::MAX {
            return;
        }
        change(child, chosen, random);
    }
}

fn replace(value: &mut Value, random: &mut Random) {
    match value {
        Value::Object(fields) if random.below(2) == 0 && !fields.is_empty() => {
            let key = fields.keys().nth(random.below(fields.len())).cloned().unwrap_or_default();
            let moved = fields.shift_remove(&key).unwrap_or_default();
            match random.below(3) {
                0 => {}
                1 => drop(fields.insert(key.to_uppercase(), moved)),
                _ => drop(fields.insert(format!("{key}x"), moved)),
            }
        }
        Value::Array(values) if random.below(2) == 0 && !values.is_empty() => {
            let copy = values[random.below(values.len())].clone();
            values.push(copy);
        }
        other => {
            *other = match random.below(12) {
                0 => Value::Null,
                1 => json!(true),
                2 => json!(-1),
                3 => json!(0),
                4 => json!(i64::MAX),
                5 => json!(u64::MAX),
                6 => json!(1.5e300),
                7 => json!(""),
                8 => json!("A b/..\u{1F600}\n"),
                9 => json!([]),
                10 => json!({}),
                _ => json!([{"a": [null, 1, "x"]}]),
            };
        }
    }
}
