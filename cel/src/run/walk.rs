//! Walks over lists and maps; each element costs a step beside what is done with it.

use std::sync::Arc;

use super::Frame;
use crate::error::Error;
use crate::syntax::{Loop, LoopKind};
use crate::value::{Key, Map, Value};

/// What the walk has so far.
enum So {
    /// Whether one element has decided, and what went wrong otherwise.
    Truth {
        wrong: Option<Error>,
    },
    Count(usize),
    List(Vec<Value>),
    Map(Map),
}

impl Frame<'_> {
    pub(super) fn walk(&mut self, of: &Loop) -> Result<Value, Error> {
        let over = self.node(&of.over)?;
        let mut so = match of.kind {
            LoopKind::All | LoopKind::Exists => So::Truth { wrong: None },
            LoopKind::ExistsOne => So::Count(0),
            LoopKind::Map | LoopKind::Filter => So::List(Vec::new()),
            LoopKind::TransformMap | LoopKind::TransformMapEntry => So::Map(Map::default()),
        };
        let depth = self.names.len();
        let mut ended = None;
        // True when the walk goes on.
        let mut visit = |frame: &mut Self, key: Value, value: Value, is_map: bool| {
            frame.names.truncate(depth);
            match &of.second {
                None => frame.names.push((of.first.clone(), if is_map { key.clone() } else { value })),
                Some(second) => {
                    frame.names.push((of.first.clone(), key.clone()));
                    frame.names.push((second.clone(), value));
                }
            }
            ended = frame.one(of, &key, &mut so).transpose();
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
        match so {
            So::Truth { wrong: Some(error) } => Err(error),
            So::Truth { wrong: None } => Ok(Value::Bool(of.kind == LoopKind::All)),
            So::Count(count) => Ok(Value::Bool(count == 1)),
            So::List(items) => Ok(Value::list(items)),
            So::Map(map) => Ok(Value::Map(Arc::new(map))),
        }
    }

    /// Looks at one element; the result when that ends the walk.
    fn one(&mut self, of: &Loop, key: &Value, so: &mut So) -> Result<Option<Value>, Error> {
        self.budget.spend(1)?;
        if let Some(filter) = &of.filter
            && !self.truth(filter)?
        {
            return Ok(None);
        }
        match so {
            So::Truth { wrong } => {
                let decides = of.kind == LoopKind::Exists;
                match self.truth(&of.body) {
                    Ok(value) if value == decides => return Ok(Some(Value::Bool(decides))),
                    Ok(_) => {}
                    Err(Error::OutOfBudget) => return Err(Error::OutOfBudget),
                    Err(error) => *wrong = wrong.take().or(Some(error)),
                }
            }
            So::Count(count) => *count += usize::from(self.truth(&of.body)?),
            So::List(items) if of.kind == LoopKind::Filter => {
                if self.truth(&of.body)? {
                    items.extend(self.names.last().map(|(_, value)| value.clone()));
                }
            }
            So::List(items) => items.push(self.node(&of.body)?),
            So::Map(map) if of.kind == LoopKind::TransformMap => {
                let value = self.node(&of.body)?;
                map.add(Key::of(key)?, value);
            }
            So::Map(map) => {
                let Value::Map(entries) = self.node(&of.body)? else {
                    return Err(Error::NoSuchOverload(String::new()));
                };
                self.budget.spend(entries.len())?;
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
