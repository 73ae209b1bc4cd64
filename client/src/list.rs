//! Decodes pages of a list, one object after the other.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The metadata of a list or of a bookmark.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListMeta {
    #[serde(rename = "resourceVersion")]
    pub resource_version: Option<String>,
    #[serde(rename = "continue")]
    pub continue_token: Option<String>,
}

/// Decodes a page of a list. `seed` decodes each object, and `each` receives it.
pub(crate) struct Page<'a, S, F> {
    pub seed: S,
    pub each: &'a mut F,
}

impl<'de, T, S, F> DeserializeSeed<'de> for Page<'_, S, F>
where
    S: Copy + DeserializeSeed<'de, Value = T>,
    F: FnMut(T),
{
    type Value = ListMeta;

    fn deserialize<D: Deserializer<'de>>(self, page: D) -> Result<ListMeta, D::Error> {
        page.deserialize_map(self)
    }
}

impl<'de, T, S, F> Visitor<'de> for Page<'_, S, F>
where
    S: Copy + DeserializeSeed<'de, Value = T>,
    F: FnMut(T),
{
    type Value = ListMeta;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ListMeta, A::Error> {
        let mut metadata = ListMeta::default();
        while let Some(field) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match field.as_ref() {
                "metadata" => metadata = map.next_value()?,
                "items" => map.next_value_seed(Items { seed: self.seed, each: &mut *self.each })?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(metadata)
    }
}

struct Items<'a, S, F> {
    seed: S,
    each: &'a mut F,
}

impl<'de, T, S, F> DeserializeSeed<'de> for Items<'_, S, F>
where
    S: Copy + DeserializeSeed<'de, Value = T>,
    F: FnMut(T),
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, items: D) -> Result<(), D::Error> {
        items.deserialize_any(self)
    }
}

impl<'de, T, S, F> Visitor<'de> for Items<'_, S, F>
where
    S: Copy + DeserializeSeed<'de, Value = T>,
    F: FnMut(T),
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the objects of a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element_seed(self.seed)? {
            (self.each)(item);
        }
        Ok(())
    }

    // An empty list may be `null`.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
