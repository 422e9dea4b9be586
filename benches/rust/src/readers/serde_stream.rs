//! `serde_json`, and `sonic-rs` through the same visitors: values go from the parser into the columns, and no
//! structure is built in between.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Read, Reader, Refusal, utf8};
use crate::columns::{Columns, End, Field, Part};

/// From text: from bytes it would not judge the UTF-8 of what it skips.
pub(super) struct SerdeJson;

impl From<serde_json::Error> for Box<Refusal> {
    fn from(error: serde_json::Error) -> Self {
        // Lines and columns from 1; a record of a line file has one line.
        Box::new(Refusal::new((error.line() == 1).then(|| error.column().saturating_sub(1)), &error))
    }
}

impl Reader for SerdeJson {
    fn name(&self) -> &'static str {
        "serde_json, streaming"
    }

    fn document(&mut self, bytes: &mut [u8], len: usize, out: &mut Columns) -> Read {
        let mut json = serde_json::Deserializer::from_str(utf8(&bytes[..len])?);
        Document(out).deserialize(&mut json)?;
        json.end()?;
        Ok(())
    }
}

/// Given bytes it judges UTF-8 itself, all at once.
pub(super) struct Sonic;

impl Reader for Sonic {
    fn name(&self) -> &'static str {
        "sonic-rs, streaming"
    }

    fn document(&mut self, bytes: &mut [u8], len: usize, out: &mut Columns) -> Read {
        let mut json = sonic_rs::Deserializer::from_slice(&bytes[..len]);
        Document(out).deserialize(&mut json)?;
        json.end()?;
        Ok(())
    }
}

/// A key, looked up without a copy.
struct Key<T>(fn(&str) -> Option<T>);

impl<'de, T> DeserializeSeed<'de> for Key<T> {
    type Value = Option<T>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<T> Visitor<'_> for Key<T> {
    type Value = Option<T>;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok((self.0)(key))
    }
}

/// A string that is handed on without a copy.
struct Text<F>(F);

impl<'de, F: FnOnce(&str)> DeserializeSeed<'de> for Text<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_str(self)
    }
}

impl<F: FnOnce(&str)> Visitor<'_> for Text<F> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        (self.0)(text);
        Ok(())
    }
}

macro_rules! map_seed {
    ($name:ident, $what:literal, $key:expr, |$key_name:ident, $map:ident, $out:ident| $body:block, $end:ident) => {
        struct $name<'c>(&'c mut Columns);

        impl<'de> DeserializeSeed<'de> for $name<'_> {
            type Value = ();

            fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
                json.deserialize_map(self)
            }
        }

        impl<'de> Visitor<'de> for $name<'_> {
            type Value = ();

            fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
                out.write_str($what)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut $map: A) -> Result<(), A::Error> {
                let $out = self.0;
                while let Some($key_name) = $map.next_key_seed(Key($key))? {
                    match $key_name {
                        Some($key_name) => $body,
                        None => {
                            $map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                $out.$end();
                Ok(())
            }
        }
    };
}

macro_rules! list_seed {
    ($name:ident, $what:literal, $item:ident) => {
        struct $name<'c>(&'c mut Columns);

        impl<'de> DeserializeSeed<'de> for $name<'_> {
            type Value = ();

            fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
                json.deserialize_seq(self)
            }
        }

        impl<'de> Visitor<'de> for $name<'_> {
            type Value = ();

            fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
                out.write_str($what)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
                while items.next_element_seed($item(&mut *self.0))?.is_some() {}
                Ok(())
            }
        }
    };
}

map_seed!(
    Event,
    "an event",
    Field::of,
    |field, map, out| {
        match field {
            Field::Text(column) => map.next_value_seed(Text(|text: &str| out.text(column, text)))?,
            Field::Float(column) => out.float(column, map.next_value()?),
            Field::Int(column) => {
                let value = map.next_value::<u64>()?;
                out.int(column, i64::try_from(value).map_err(A::Error::custom)?);
            }
            Field::Flag(column) => out.flag(column, map.next_value()?),
        }
    },
    end_event
);
map_seed!(
    Edge,
    "an edge",
    End::of,
    |end, map, out| { map.next_value_seed(Text(|text: &str| out.end(end, text)))? },
    end_edge
);
list_seed!(Events, "an array of events", Event);
list_seed!(Edges, "an array of edges", Edge);

struct Document<'c>(&'c mut Columns);

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a trace")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let out = self.0;
        while let Some(part) = map.next_key_seed(Key(Part::of))? {
            match part {
                Some(Part::Events) => map.next_value_seed(Events(&mut *out))?,
                Some(Part::Edges) => map.next_value_seed(Edges(&mut *out))?,
                Some(Part::TraceId) => map.next_value_seed(Text(|text: &str| out.trace_id(text)))?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}
