//! Every type of every kind: cut into types when one is first asked for, each of them read when it is.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use foldhash::fast::FixedState;

use super::field::Field;

/// A table by names that are part of the program, which nobody can fill so that looking into it takes long.
type ByName<T> = HashMap<&'static str, T, FixedState>;

/// Every type of every kind, by name and by kind.
#[derive(Debug)]
pub struct All {
    structs: ByName<Unread>,
    kinds: HashMap<(&'static str, &'static str), &'static str, FixedState>,
}

/// A type and its fields.
#[derive(Debug)]
pub struct Struct {
    /// The name with the room of its group, such as `core.v1.PodSpec`.
    pub name: &'static str,
    /// True when server-side apply owns all of it at once wherever it stands.
    pub atomic: bool,
    fields: Box<[Field]>,
    /// Positions in `fields`: every field of every object that is written is looked up several times.
    by_name: ByName<u16>,
    /// Positions in `fields`, in the order of their numbers.
    by_number: Box<[u16]>,
}

/// A field by its number, or a message that holds fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbered<'a> {
    /// The field.
    Field(&'a Field),
    /// A message whose fields stand in its parent in JSON; the numbers that lead to it.
    Nested(&'a [u32]),
}

/// The lines of a type, and the type once it was asked for.
#[derive(Debug)]
struct Unread {
    head: &'static str,
    lines: &'static str,
    read: OnceLock<Struct>,
}

/// The table of all types.
pub fn all() -> &'static All {
    static ALL: LazyLock<All> = LazyLock::new(|| All::parse(include_str!("../all.txt")));
    &ALL
}

impl All {
    fn parse(table: &'static str) -> Self {
        let mut all = Self { structs: ByName::default(), kinds: HashMap::default() };
        let mut rest = table;
        while !rest.is_empty() {
            let (head, after) = rest.split_once('\n').unwrap_or((rest, ""));
            let end = end_of_fields(after);
            rest = &after[end..];
            let Some(name) = head.split(' ').next().filter(|_| !head.starts_with('#')) else { continue };
            if let Some(api_version) = head.split(' ').find_map(|word| word.strip_prefix("kind=")) {
                let kind = name.rsplit('.').next().unwrap_or(name);
                all.kinds.insert((api_version, kind), name);
            }
            all.structs.insert(name, Unread { head, lines: &after[..end], read: OnceLock::new() });
        }
        all
    }

    /// The type of a kind; the group of the oldest kinds, such as Pod, is empty.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Struct> {
        match group {
            "" => self.kind_of(version, kind),
            _ => self.kind_of(&format!("{group}/{version}"), kind),
        }
    }

    /// The type of a kind by its `apiVersion`. What every group has, such as DeleteOptions, is found in any.
    pub fn kind_of(&self, api_version: &str, kind: &str) -> Option<&Struct> {
        let api_version = if matches!(kind, "DeleteOptions" | "Status") { "v1" } else { api_version };
        self.get(self.kinds.get(&(api_version, kind))?)
    }

    /// The type of that name.
    pub fn get(&self, name: &str) -> Option<&Struct> {
        let unread = self.structs.get(name)?;
        Some(unread.read.get_or_init(|| Struct::parse(unread.head, unread.lines)))
    }

    /// The field `name` of the type `of`.
    pub fn field(&self, of: &str, name: &str) -> Option<&Field> {
        self.get(of)?.field(name)
    }

    /// Every kind with its API version and the name of its type, in no order.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        self.kinds.iter().map(|((api_version, kind), name)| (*api_version, *kind, *name))
    }

    /// The name of every type, in no order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.structs.keys().copied()
    }
}

/// Where the indented lines at the begin of `text` end.
fn end_of_fields(text: &str) -> usize {
    text.split_inclusive('\n').take_while(|line| line.starts_with(' ')).map(str::len).sum()
}

impl Struct {
    fn parse(head: &'static str, lines: &'static str) -> Self {
        let mut words = head.split(' ');
        let name = words.next().unwrap_or_default();
        let atomic = words.any(|word| word == "atomic");
        let fields: Box<[Field]> = lines.lines().map(Field::parse).collect();
        let mut by_number: Vec<u16> =
            (0..).zip(&fields).filter(|(_, field)| !field.numbers.is_empty()).map(|(at, _)| at).collect();
        by_number.sort_by_key(|at| &fields[usize::from(*at)].numbers);
        let by_name = (0..).zip(&fields).map(|(at, field)| (field.name, at)).collect();
        Self { name, atomic, by_name, by_number: by_number.into(), fields }
    }

    /// Every field, in alphabetical order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The field `name`.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(usize::from(*self.by_name.get(name)?))
    }

    /// What stands under `number` in this type's message, or in the message nested in it that `within` leads to.
    pub fn numbered(&self, within: &[u32], number: u32) -> Option<Numbered<'_>> {
        let numbers = |at: &u16| &*self.fields[usize::from(*at)].numbers;
        let path = within.iter().chain([&number]);
        let first = self.by_number.partition_point(|at| numbers(at).iter().lt(path.clone()));
        let field = &self.fields[usize::from(*self.by_number.get(first)?)];
        let depth = within.len() + 1;
        if field.numbers.len() < depth || !field.numbers[..depth].iter().eq(path) {
            return None;
        }
        Some(if field.numbers.len() == depth {
            Numbered::Field(field)
        } else {
            Numbered::Nested(&field.numbers[..depth])
        })
    }
}
