//! Reads the service proxy's table from the kernel.

use std::collections::BTreeMap;

use super::super::snapshot::{self, read_chain, read_table};
use super::super::socket::{RequestError, Socket};
use super::super::table::{INET, LIST_ELEMENT, Layout, kind};
use super::super::wire::{Attributes, attributes, find, number, text};
use super::Side;
use super::elements::{DROP, Elements, GOTO, Value};
use super::layout::{Capacity, Set, SetKind};

/// The table as it is in the kernel.
pub struct Found {
    /// Chains, rules and sets.
    pub layout: Layout,
    /// The elements, except those that rules add. `None` if another program added other elements, or a set is
    /// missing.
    pub elements: Option<Elements>,
}

impl Found {
    /// The sizes of the sets. `None` if a set is missing.
    pub fn capacity(&self) -> Option<Capacity> {
        let size = |kind| {
            let set = Set { kind, family: super::super::Family::V4 };
            self.layout.sets.get(set.name()).map(|spec| spec.most)
        };
        Some(Capacity {
            services: size(SetKind::Services(Side::Inside))?,
            endpoints: size(SetKind::Endpoints(Side::Inside))?,
        })
    }
}

/// Reads the table. Returns `None` if it does not exist.
pub fn read(socket: &mut Socket, name: &str) -> Result<Option<Found>, RequestError> {
    let tables = socket.list(kind::GET_TABLE, INET, Attributes::new(), read_table)?;
    let Some(table) = tables.into_iter().find(|table| table.family == INET && table.name == name) else {
        return Ok(None);
    };
    let chains = socket.list(kind::GET_CHAIN, INET, Attributes::new(), read_chain)?;
    let chains = chains.into_iter().filter(|chain| chain.family == INET && chain.table == name);
    let chains: BTreeMap<_, _> = chains.map(|chain| (chain.name, chain.hook)).collect();
    let layout = snapshot::layout(socket, INET, name, table.flags, chains)?;
    let has_sets = Set::all().all(|set| layout.sets.contains_key(set.name()));
    let elements = if has_sets { read_elements(socket, name)? } else { None };
    Ok(Some(Found { layout, elements }))
}

/// The key and the value of an element of a map.
pub type Entry = (Box<[u8]>, Value);

fn read_elements(socket: &mut Socket, table: &str) -> Result<Option<Elements>, RequestError> {
    let mut all = Elements::new();
    let is_own = |set: &Set| !matches!(set.kind, SetKind::Affinity | SetKind::Clients);
    for set in Set::all().filter(is_own) {
        let Some(list) = read_set(socket, table, set)? else { return Ok(None) };
        all.extend(list.into_iter().map(|(key, value)| ((set, key), value)));
    }
    Ok(Some(all))
}

/// Reads the elements of a set. Returns `None` if another program added other ones.
pub fn read_set(socket: &mut Socket, table: &str, set: Set) -> Result<Option<Vec<Entry>>, RequestError> {
    let of = Attributes::new().text(1, table).text(2, set.name());
    let lists = socket.list(kind::GET_ELEMENT, INET, of, |answer| {
        let list = find(answer.attributes(), 3).unwrap_or_default();
        let elements = attributes(list).filter(|(kind, _)| *kind == LIST_ELEMENT);
        Some(elements.map(|(_, element)| read_element(element)).collect::<Option<Vec<_>>>())
    })?;
    Ok(lists.into_iter().collect::<Option<Vec<_>>>().map(|lists| lists.into_iter().flatten().collect()))
}

/// The key and value of an element. `None` if the kubelet does not create such a value.
fn read_element(element: &[u8]) -> Option<(Box<[u8]>, Value)> {
    let key = find(find(element, 1)?, 1)?.into();
    let Some(data) = find(element, 2) else { return Some((key, Value::None)) };
    if let Some(bytes) = find(data, 1) {
        return Some((key, Value::Data(bytes.into())));
    }
    let verdict = find(data, 2)?;
    match number(verdict, 1)?.cast_signed() {
        DROP => Some((key, Value::Drop)),
        GOTO => Some((key, Value::Goto(text(verdict, 2)?.into()))),
        _ => None,
    }
}
