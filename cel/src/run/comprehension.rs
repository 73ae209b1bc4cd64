//! Evaluates comprehensions over lists and maps. Each element costs one unit in addition to the body.

use std::sync::Arc;

use super::Evaluator;
use crate::ast::{Comprehension, ComprehensionKind};
use crate::error::Error;
use crate::value::{Key, Map, Value};

/// The accumulator of a comprehension.
enum Accumulator {
    /// The accumulator of `all` and `exists`: the first error. It is the result if no element decides.
    Truth {
        wrong: Option<Error>,
    },
    Count(usize),
    List(Vec<Value>),
    Map(Map),
}

impl Evaluator<'_> {
    pub(super) fn comprehension(&mut self, of: &Comprehension) -> Result<Value, Error> {
        let over = self.node(&of.over)?;
        let mut accumulator = match of.kind {
            ComprehensionKind::All | ComprehensionKind::Exists => Accumulator::Truth { wrong: None },
            ComprehensionKind::ExistsOne => Accumulator::Count(0),
            ComprehensionKind::Map | ComprehensionKind::Filter => Accumulator::List(Vec::new()),
            ComprehensionKind::TransformMap | ComprehensionKind::TransformMapEntry => {
                Accumulator::Map(Map::default())
            }
        };
        let depth = self.names.len();
        let mut ended = None;
        // Returns true to continue.
        let mut visit = |frame: &mut Self, key: Value, value: Value, is_map: bool| {
            frame.names.truncate(depth);
            match &of.second {
                None => frame.names.push((of.first.clone(), if is_map { key.clone() } else { value })),
                Some(second) => {
                    frame.names.push((of.first.clone(), key.clone()));
                    frame.names.push((second.clone(), value));
                }
            }
            ended = frame.visit_element(of, &key, &mut accumulator).transpose();
            ended.is_none()
        };
        match &over {
            Value::List(list) => {
                let mut items = list.items.iter().enumerate();
                items.all(|(at, item)| visit(self, Value::from(at), item.clone(), false));
            }
            Value::Map(map) => {
                map.iter().all(|(key, value)| visit(self, key.value(), value.clone(), true));
            }
            _ => return Err(Error::NoSuchOverload(String::new())),
        }
        self.names.truncate(depth);
        if let Some(ended) = ended {
            return ended;
        }
        match accumulator {
            Accumulator::Truth { wrong: Some(error) } => Err(error),
            Accumulator::Truth { wrong: None } => Ok(Value::Bool(of.kind == ComprehensionKind::All)),
            Accumulator::Count(count) => Ok(Value::Bool(count == 1)),
            Accumulator::List(items) => Ok(Value::list(items)),
            Accumulator::Map(map) => Ok(Value::Map(Arc::new(map))),
        }
    }

    /// Evaluates one element. Returns the result if the comprehension ends early.
    fn visit_element(
        &mut self,
        of: &Comprehension,
        key: &Value,
        accumulator: &mut Accumulator,
    ) -> Result<Option<Value>, Error> {
        self.budget.charge(1)?;
        if let Some(filter) = &of.filter
            && !self.truth(filter)?
        {
            return Ok(None);
        }
        match accumulator {
            Accumulator::Truth { wrong } => {
                let decides = of.kind == ComprehensionKind::Exists;
                match self.truth(&of.body) {
                    Ok(value) if value == decides => return Ok(Some(Value::Bool(decides))),
                    Ok(_) => {}
                    Err(Error::OutOfBudget) => return Err(Error::OutOfBudget),
                    Err(error) => *wrong = wrong.take().or(Some(error)),
                }
            }
            Accumulator::Count(count) => *count += usize::from(self.truth(&of.body)?),
            Accumulator::List(items) if of.kind == ComprehensionKind::Filter => {
                if self.truth(&of.body)? {
                    items.extend(self.names.last().map(|(_, value)| value.clone()));
                }
            }
            Accumulator::List(items) => items.push(self.node(&of.body)?),
            Accumulator::Map(map) if of.kind == ComprehensionKind::TransformMap => {
                let value = self.node(&of.body)?;
                map.add(Key::of(key)?, value);
            }
            Accumulator::Map(map) => {
                let Value::Map(entries) = self.node(&of.body)? else {
                    return Err(Error::NoSuchOverload(String::new()));
                };
                self.budget.charge(entries.len())?;
                for (key, value) in entries.iter() {
                    if !map.add(key.clone(), value.clone()) {
                        return Err(Error::failed(format!("insert failed: key '{key}' already exists")));
                    }
                }
            }
        }
        Ok(None)
    }
}
