//! Validates cron schedules: five fields (`*/5 0-6 * jan mon-fri`), or a descriptor such as `@daily`.

/// A field of a schedule: its name, its range, and the names of its values from the lowest up.
struct Unit {
    name: &'static str,
    least: u32,
    most: u32,
    words: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const UNITS: [Unit; 5] = [
    Unit { name: "minutes", least: 0, most: 59, words: &[] },
    Unit { name: "hours", least: 0, most: 23, words: &[] },
    Unit { name: "days of the month", least: 1, most: 31, words: &[] },
    Unit { name: "months", least: 1, most: 12, words: &MONTHS },
    Unit { name: "days of the week", least: 0, most: 6, words: &DAYS },
];
const NAMED: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Validates a schedule.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    if let Some(every) = schedule.strip_prefix("@every ") {
        return if is_duration(every) {
            Ok(())
        } else {
            Err(format!("failed to parse duration {schedule}: write it like @every 1h30m"))
        };
    }
    if schedule.starts_with('@') {
        return if NAMED.contains(&schedule) {
            Ok(())
        } else {
            Err(format!("unrecognized descriptor: {schedule}; there are {}", NAMED.join(", ")))
        };
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != UNITS.len() {
        return Err(format!("expected exactly 5 fields, found {}: {schedule}", fields.len()));
    }
    for (field, unit) in fields.iter().zip(&UNITS) {
        for part in field.split(',') {
            check_part(part, unit).map_err(|what| format!("{what} in the {} ({field})", unit.name))?;
        }
    }
    Ok(())
}

/// Validates one element of a list: `*`, `5`, `1-5`, `*/2`, `10/2`.
fn check_part(part: &str, unit: &Unit) -> Result<(), String> {
    let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
    if let Some(step) = step {
        match step.parse::<u32>() {
            Ok(1..) => {}
            _ => return Err(format!("step of range should be a positive number: {part}")),
        }
    }
    if matches!(range, "*" | "?") {
        return Ok(());
    }
    match range.split_once('-') {
        None => number(range, unit).map(drop),
        Some((from, to)) if number(from, unit)? > number(to, unit)? => {
            Err(format!("beginning of range beyond its end: {part}"))
        }
        Some(_) => Ok(()),
    }
}

fn number(text: &str, unit: &Unit) -> Result<u32, String> {
    let word = unit.words.iter().position(|word| word.eq_ignore_ascii_case(text));
    let number = match word {
        Some(at) => unit.least + u32::try_from(at).unwrap_or_default(),
        None => text.parse().map_err(|_| format!("failed to parse number: \"{text}\""))?,
    };
    if (unit.least..=unit.most).contains(&number) {
        Ok(number)
    } else {
        Err(format!("{number} is not from {} to {}", unit.least, unit.most))
    }
}

/// True for a duration such as `1h30m`.
fn is_duration(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Some(unit) = ["ns", "us", "ms", "s", "m", "h"].iter().find(|unit| {
            let after = &rest[digits..];
            after
                .strip_prefix(**unit)
                .is_some_and(|next| next.is_empty() || next.starts_with(|c: char| c.is_ascii_digit()))
        }) else {
            return false;
        };
        if rest[..digits].parse::<f64>().is_err() {
            return false;
        }
        rest = &rest[digits + unit.len()..];
    }
    !text.is_empty()
}
