//! Cron schedules of CronJobs: five fields (`*/5 0-6 * jan mon-fri`), or a descriptor such as `@daily` or `@every 1h`.
//!
//! The syntax and the meaning are those of stock Kubernetes. If both days of the month and days of the week are
//! restricted, a day matches if one of the fields does.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};

/// A schedule in the wall-clock time of a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule(Form);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    Fields(Fields),
    /// `@every`: at least one second.
    Every(SignedDuration),
}

/// The values of each field as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether the field does not restrict the days of the month, or of the week.
    is_any_day: bool,
    is_any_weekday: bool,
}

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
const NAMED: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];
/// How far [`Schedule::next`] looks ahead. The longest pause of a schedule that ever matches is eight years, around a
/// year such as 1900. Stock Kubernetes looks ahead five years.
const MAX_YEARS: i32 = 8;

impl Schedule {
    /// Parses a schedule.
    ///
    /// # Errors
    /// If the schedule has another form. The message says which field is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(every) = text.strip_prefix("@every ") {
            let delay = duration(every)
                .ok_or_else(|| format!("failed to parse duration {text}: write it like @every 1h30m"))?;
            return Ok(Self(Form::Every(SignedDuration::from_secs(delay.as_secs().max(1)))));
        }
        if text.starts_with('@') {
            let names = || NAMED.map(|(name, _)| name).join(", ");
            let (_, fields) = NAMED
                .iter()
                .find(|(name, _)| *name == text)
                .ok_or_else(|| format!("unrecognized descriptor: {text}; there are {}", names()))?;
            return Self::parse(fields);
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = *fields else {
            return Err(format!("expected exactly 5 fields, found {}: {text}", fields.len()));
        };
        let [minute, hour, day, month, weekday] = &UNITS;
        let ((days, is_any_day), (weekdays, is_any_weekday)) =
            (values(days, day)?, values(weekdays, weekday)?);
        Ok(Self(Form::Fields(Fields {
            minutes: values(minutes, minute)?.0,
            hours: values(hours, hour)?.0,
            days,
            months: values(months, month)?.0,
            weekdays,
            is_any_day,
            is_any_weekday,
        })))
    }

    /// Returns the next time after `after`. `None` if there is none in the next years, such as on 31 February.
    ///
    /// A wall-clock time that a change of the offset skips is skipped. One that occurs twice matches twice.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.0 {
            Form::Every(delay) => whole(after).checked_add(*delay).ok(),
            Form::Fields(fields) => fields.next(after, zone),
        }
    }

    /// Returns the last time after `after` and not after `until`, and whether there are more than `most` such times.
    pub fn last(
        &self,
        after: Timestamp,
        until: Timestamp,
        zone: &TimeZone,
        most: usize,
    ) -> Option<(Timestamp, bool)> {
        let first = self.next(after, zone).filter(|first| *first <= until)?;
        if let Form::Every(delay) = &self.0 {
            let more = until.duration_since(first).as_secs() / delay.as_secs();
            let last =
                first.checked_add(SignedDuration::from_secs(more.checked_mul(delay.as_secs())?)).ok()?;
            return Some((last, usize::try_from(more).is_ok_and(|more| more >= most)));
        }
        let times =
            std::iter::successors(Some(first), |at| self.next(*at, zone)).take_while(|at| *at <= until);
        let (count, last) = times.take(most + 1).fold((0, first), |(count, _), at| (count + 1, at));
        if count <= most {
            return Some((last, false));
        }
        // The last time is searched from the end: in the last hour, day, month, year and so on.
        let hours = [1, 24, 24 * 31, 24 * 366, 24 * 366 * i64::from(MAX_YEARS)];
        let later = hours.into_iter().find_map(|hours| {
            let from = until.checked_sub(SignedDuration::from_hours(hours)).ok()?.max(last);
            let times = std::iter::successors(self.next(from, zone), |at| self.next(*at, zone));
            times.take_while(|at| *at <= until).last()
        });
        Some((later.unwrap_or(last), true))
    }
}

impl Fields {
    fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut at = whole(after).checked_add(SignedDuration::from_secs(1)).ok()?.to_zoned(zone.clone());
        let limit = i32::from(at.year()) + MAX_YEARS;
        let seconds = at.second();
        if seconds != 0 {
            at = at.checked_add((60 - i64::from(seconds)).seconds()).ok()?;
        }
        while i32::from(at.year()) <= limit {
            let minute = u32::try_from(at.minute()).unwrap_or_default();
            let minutes = if !has(self.months, at.month()) {
                at = at.first_of_month().ok()?.checked_add(1.month()).ok()?.start_of_day().ok()?;
                continue;
            } else if !self.has_day(&at) {
                at = at.tomorrow().ok()?.start_of_day().ok()?;
                continue;
            } else if !has(self.hours, at.hour()) {
                60 - minute
            } else {
                // The next minute of this hour, or the next hour.
                (self.minutes >> minute).trailing_zeros().min(60 - minute)
            };
            if minutes == 0 {
                return Some(at.timestamp());
            }
            at = at.checked_add(i64::from(minutes).minutes()).ok()?;
        }
        None
    }

    fn has_day(&self, at: &Zoned) -> bool {
        let day = has(self.days, at.day());
        let weekday = has(self.weekdays, at.weekday().to_sunday_zero_offset());
        if self.is_any_day || self.is_any_weekday { day && weekday } else { day || weekday }
    }
}

fn has(values: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| values & (1 << value) != 0)
}

/// Truncates a time to whole seconds.
fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// Returns the values of a field, and whether the field is `*`. Empty elements of a list are skipped, as in stock
/// Kubernetes.
fn values(field: &str, unit: &Unit) -> Result<(u64, bool), String> {
    let (mut bits, mut is_any) = (0, false);
    for part in field.split(',').filter(|part| !part.is_empty()) {
        let (more, is_star) =
            part_values(part, unit).map_err(|what| format!("{what} in the {} ({field})", unit.name))?;
        bits |= more;
        is_any |= is_star;
    }
    Ok((bits, is_any))
}

/// Returns the values of one element of a list: `*`, `5`, `1-5`, `*/2`, `10/2`.
fn part_values(part: &str, unit: &Unit) -> Result<(u64, bool), String> {
    let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
    let by = match step.map(str::parse::<usize>) {
        None => 1,
        Some(Ok(by @ 1..)) => by,
        Some(_) => return Err(format!("step of range should be a positive number: {part}")),
    };
    let is_star = matches!(range, "*" | "?");
    let (from, to) = match range.split_once('-') {
        _ if is_star => (unit.least, unit.most),
        Some((from, to)) => (number(from, unit)?, number(to, unit)?),
        None => {
            let from = number(range, unit)?;
            (from, if step.is_some() { unit.most } else { from })
        }
    };
    if from > to {
        return Err(format!("beginning of range beyond its end: {part}"));
    }
    let bits = (from..=to).step_by(by).fold(0, |bits, value| bits | (1 << value));
    Ok((bits, is_star && by == 1))
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

/// Parses a duration such as `1h30m`.
fn duration(text: &str) -> Option<SignedDuration> {
    const UNITS: [(&str, f64); 6] =
        [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (mut rest, mut total) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let (next, seconds) = UNITS.iter().find_map(|(unit, seconds)| {
            let next = after.strip_prefix(unit)?;
            let is_end = next.is_empty() || next.starts_with(|c: char| c.is_ascii_digit());
            is_end.then_some((next, seconds))
        })?;
        total += number.parse::<f64>().ok()? * seconds;
        rest = next;
    }
    if text.is_empty() { None } else { SignedDuration::try_from_secs_f64(total).ok() }
}

#[cfg(test)]
mod tests {
    //! Tests of schedules, from the Kubernetes documentation and crontab(5).
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn check(schedule: &str, zone: &str, after: &str, expected: &[&str]) {
        let (parsed, zone) = (Schedule::parse(schedule).unwrap(), TimeZone::get(zone).unwrap());
        let times = std::iter::successors(Some(at(after)), |after| parsed.next(*after, &zone)).skip(1);
        let times: Vec<String> = times.take(expected.len().max(1)).map(|time| time.to_string()).collect();
        assert_eq!(times, expected, "{schedule}");
    }

    #[test]
    fn fields_select_minutes() {
        let after = "2026-01-01T00:00:30Z"; // A Thursday.
        for (schedule, expected) in [
            ("* * * * *", ["2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"]),
            ("*/20 * * * *", ["2026-01-01T00:20:00Z", "2026-01-01T00:40:00Z"]),
            ("50/5 3 * * *", ["2026-01-01T03:50:00Z", "2026-01-01T03:55:00Z"]),
            ("0 0 * * *", ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"]),
            ("15,45 8-9 * * ?", ["2026-01-01T08:15:00Z", "2026-01-01T08:45:00Z"]),
            ("0 3 * * MON", ["2026-01-05T03:00:00Z", "2026-01-12T03:00:00Z"]),
            ("0 0 1 feb-mar *", ["2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"]),
            // Either field matches if both are restricted.
            ("0 0 13 * fri", ["2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"]),
            ("0 0 */2 * fri", ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"]),
            ("0 0 13 * *", ["2026-01-13T00:00:00Z", "2026-02-13T00:00:00Z"]),
            ("0 0 29 2 *", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
            ("@hourly", ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"]),
            ("@weekly", ["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"]),
            ("@yearly", ["2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"]),
            ("@every 1m30s", ["2026-01-01T00:02:00Z", "2026-01-01T00:03:30Z"]),
        ] {
            check(schedule, "UTC", after, &expected);
        }
        check("59 23 31 2 *", "UTC", after, &[]);
    }

    #[test]
    fn the_time_zone_decides_on_the_wall_clock() {
        let expected = ["2026-01-01T23:30:00Z", "2026-01-02T23:30:00Z"];
        check(
            "30 5 * * *",
            "Asia/Kathmandu",
            "2026-01-01T00:00:00Z",
            &["2026-01-01T23:45:00Z", "2026-01-02T23:45:00Z"],
        );
        check("30 8 * * *", "Asia/Tokyo", "2026-01-01T00:00:00Z", &expected);
        // 2:30 does not exist on 29 March, and exists twice on 25 October.
        check(
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T00:00:00Z",
            &["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"],
        );
        check(
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            &["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"],
        );
        // Midnight does not exist when summer time begins in Beirut.
        check("0 0 * * *", "Asia/Beirut", "2026-03-28T12:00:00Z", &["2026-03-29T21:00:00Z"]);
    }

    #[test]
    fn the_last_time_is_found_without_all_before() {
        let utc = TimeZone::UTC;
        for (schedule, after, until, expected) in [
            ("*/5 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:04:59Z", None),
            (
                "*/5 * * * *",
                "2026-01-01T00:00:00Z",
                "2026-01-01T00:11:00Z",
                Some(("2026-01-01T00:10:00Z", false)),
            ),
            (
                "* * * * *",
                "2020-01-01T00:00:00Z",
                "2026-01-01T00:11:30Z",
                Some(("2026-01-01T00:11:00Z", true)),
            ),
            (
                "0 0 1 1 *",
                "1800-01-01T00:00:00Z",
                "2026-01-02T00:00:00Z",
                Some(("2026-01-01T00:00:00Z", true)),
            ),
            (
                "0 0 29 2 *",
                "1000-01-01T00:00:00Z",
                "1904-01-01T00:00:00Z",
                Some(("1896-02-29T00:00:00Z", true)),
            ),
            (
                "*/5 * * * *",
                "2026-01-01T00:30:00Z",
                "2026-01-01T08:59:59Z",
                Some(("2026-01-01T08:55:00Z", true)),
            ),
            (
                "@every 10s",
                "2026-01-01T00:00:00Z",
                "2026-01-01T01:00:05Z",
                Some(("2026-01-01T01:00:00Z", true)),
            ),
        ] {
            let last = Schedule::parse(schedule).unwrap().last(at(after), at(until), &utc, 100);
            assert_eq!(last, expected.map(|(last, is_many)| (at(last), is_many)), "{schedule}");
        }
    }

    #[test]
    fn empty_elements_of_a_list_are_skipped() {
        assert_eq!(Schedule::parse("1,,5, * * * *").unwrap(), Schedule::parse("1,5 * * * *").unwrap());
        let never = Schedule::parse("0 0 * , *").unwrap();
        assert_eq!(never.next(at("2026-01-01T00:00:00Z"), &TimeZone::UTC), None);
    }

    #[test]
    fn other_texts_are_no_schedules() {
        for text in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "*/0 * * * *",
            "5-3 * * * *",
            "a * * * *",
            "@reboot",
            "@every",
            "@every x",
            "@every 1h x",
        ] {
            assert!(Schedule::parse(text).is_err(), "{text}");
        }
    }
}
