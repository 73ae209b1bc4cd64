//! Sets of completion indexes, in the interval format of `status.completedIndexes`: `1,3-5,7`. Pure.

use std::fmt;

/// A set of indexes as sorted intervals, first and last included, with a gap between any two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(Vec<(u32, u32)>);

impl Indexes {
    /// Parses the indexes below `limit`. An interval that is not valid is skipped.
    pub fn parse(text: &str, limit: u32) -> Self {
        let interval = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
            let last = last.min(limit.checked_sub(1)?);
            (first <= last).then_some((first, last))
        };
        Self::merged(text.split(',').filter_map(interval).collect())
    }

    fn merged(mut intervals: Vec<(u32, u32)>) -> Self {
        intervals.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::new();
        for (first, last) in intervals {
            match merged.last_mut() {
                Some(open) if first <= open.1.saturating_add(1) => open.1 = open.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// Returns the set with more indexes.
    pub fn with(&self, more: impl IntoIterator<Item = u32>) -> Self {
        let more = more.into_iter().map(|index| (index, index));
        Self::merged(self.0.iter().copied().chain(more).collect())
    }

    /// Returns the union of two sets.
    pub fn union(&self, other: &Self) -> Self {
        Self::merged(self.0.iter().chain(&other.0).copied().collect())
    }

    /// Number of indexes.
    pub fn count(&self) -> i64 {
        self.0.iter().map(|(first, last)| i64::from(last - first) + 1).sum()
    }

    pub fn contains(&self, index: u32) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// Number of indexes that both sets have.
    pub fn shared(&self, other: &Self) -> i64 {
        let (mut own, mut others, mut shared) = (self.0.iter().peekable(), other.0.iter().peekable(), 0);
        while let (Some(&&(first, last)), Some(&&(other_first, other_last))) = (own.peek(), others.peek()) {
            let (from, to) = (first.max(other_first), last.min(other_last));
            if from <= to {
                shared += i64::from(to - from) + 1;
            }
            if last <= other_last {
                own.next();
            } else {
                others.next();
            }
        }
        shared
    }

    /// Returns the indexes below `limit` that are not in the set, in order.
    pub fn missing(&self, limit: u32) -> impl Iterator<Item = u32> {
        let starts = std::iter::once(0).chain(self.0.iter().map(|(_, last)| last.saturating_add(1)));
        let ends = self.0.iter().map(|(first, _)| *first).chain(std::iter::once(limit));
        starts.zip(ends).flat_map(move |(start, end)| start..end.min(limit))
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            // Two neighbours are written as a list, as in stock Kubernetes.
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_as_intervals() {
        for (text, limit, expected) in [
            ("", 9, ""),
            ("1,3-5,7", 9, "1,3-5,7"),
            ("1,3-5,7", 5, "1,3,4"),
            ("1-3,4,5", 9, "1-5"),
            ("7,x,3-2,0,1", 9, "0,1,7"),
            ("0-9", 0, ""),
        ] {
            assert_eq!(Indexes::parse(text, limit).to_string(), expected, "{text} below {limit}");
        }
        let some = Indexes::parse("1,3-5", 9);
        assert_eq!(some.with([7, 2, 4]).to_string(), "1-5,7");
        assert_eq!(some.union(&Indexes::parse("0,6-8", 9)).to_string(), "0,1,3-8");
        assert_eq!(
            (some.count(), some.contains(4), some.contains(2), some.contains(6)),
            (4, true, false, false)
        );
    }

    #[test]
    fn missing_and_shared_indexes_are_found() {
        let some = Indexes::parse("1,3-5", 9);
        assert_eq!(some.missing(8).collect::<Vec<_>>(), [0, 2, 6, 7]);
        assert_eq!(some.missing(4).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(Indexes::default().missing(2).collect::<Vec<_>>(), [0, 1]);
        for (other, expected) in [("", 0), ("0,2", 0), ("0-9", 4), ("4-9", 2), ("1,4", 2)] {
            assert_eq!(some.shared(&Indexes::parse(other, 10)), expected, "{other}");
        }
    }
}
