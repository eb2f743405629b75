//! Arguments of operations, and options, which the driver's own types read.
//!
//! An option that a type of the driver has no field for is `unsupported`. So the driver itself says which options
//! it has: a case that needs another one is skipped, where it would seem to hold if the option were ignored.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mongodb::bson::{self, Bson, Document, doc};
use serde::de::value::MapDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use crate::Failure;
use crate::entities::Session;

/// Runs a transaction's callback, and returns the error that it ended with.
pub type Callback = Arc<dyn Fn() -> BoxFuture<'static, mongodb::error::Result<()>> + Send + Sync>;

/// The arguments of an operation. What no operation has taken is an option.
pub struct Arguments {
    given: Document,
    pub callback: Option<Callback>,
    pub session: Option<Session>,
}

impl Arguments {
    pub fn new(given: Document) -> Self {
        Self { given, callback: None, session: None }
    }

    /// Takes an argument that may be there.
    pub fn take(&mut self, name: &str) -> Option<Bson> {
        self.given.remove(name)
    }

    /// Takes an argument that may be there, as the driver takes it.
    pub fn get<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, Failure> {
        self.take(name).map(|value| read(name, value)).transpose()
    }

    /// Takes an argument that must be there.
    pub fn need<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, Failure> {
        self.get(name)?.ok_or_else(|| Failure::Unsupported(format!("{name} is missing")))
    }

    /// Takes a document; an empty one where there is none.
    pub fn document(&mut self, name: &str) -> Document {
        match self.take(name) {
            Some(Bson::Document(document)) => document,
            _ => Document::new(),
        }
    }

    /// Takes a list of documents, empty where there is none.
    pub fn documents(&mut self, name: &str) -> Vec<Document> {
        let Some(Bson::Array(values)) = self.take(name) else {
            return Vec::new();
        };
        let documents = values.into_iter().filter_map(|value| match value {
            Bson::Document(document) => Some(document),
            _ => None,
        });
        documents.collect()
    }

    /// Takes what was not taken.
    pub fn options<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        read("options", Bson::Document(std::mem::take(&mut self.given)))
    }

    /// Skips a case that has options for a method of the driver that takes none.
    pub fn refuse_options(&self) -> Result<(), Failure> {
        match self.given.keys().next() {
            Some(name) => Err(Failure::Unsupported(format!("the driver does not take {name} here"))),
            None => Ok(()),
        }
    }
}

fn read<T: DeserializeOwned>(name: &str, value: Bson) -> Result<T, Failure> {
    T::deserialize(Given(value)).map_err(|why| Failure::Unsupported(format!("{name}: {why}")))
}

/// A value of a scenario, which is read by the names and in the units of the specifications.
struct Given(Bson);

/// The fields whose names in the driver are not those of the specifications.
const OTHER_NAMES: [(&str, &str); 4] = [
    ("readpreference", "selectioncriteria"),
    ("version", "apiversion"),
    ("strict", "apistrict"),
    ("deprecationerrors", "apideprecationerrors"),
];

/// Returns a name in the form in which those of scenarios and of the driver are compared: `maxTimeMS`, `max_time`.
fn bare(name: &str) -> String {
    let name = name.to_lowercase().replace('_', "");
    name.strip_suffix("ms").unwrap_or(&name).to_string()
}

fn field_of(name: &str, fields: &'static [&'static str]) -> Option<&'static str> {
    let wanted = bare(name);
    let other = OTHER_NAMES.iter().find(|(ours, _)| *ours == wanted).map(|(_, theirs)| *theirs);
    fields.iter().copied().find(|field| bare(field) == wanted || Some(bare(field).as_str()) == other)
}

impl<'de> Deserializer<'de> for Given {
    type Error = bson::error::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        bson::Deserializer::new(self.0).deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0 {
            Bson::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        let document = match self.0 {
            Bson::Document(document) => document,
            value if name == "Duration" => milliseconds(&value)
                .ok_or_else(|| Self::Error::custom(format_args!("{value} is no number of milliseconds")))?,
            value => return bson::Deserializer::new(value).deserialize_any(visitor),
        };
        let mut known = Vec::with_capacity(document.len());
        for (name, value) in document {
            let Some(field) = field_of(&name, fields) else {
                return Err(Self::Error::custom(format_args!("the driver does not take {name} here")));
            };
            known.push((field, Self(value)));
        }
        visitor.visit_map(MapDeserializer::new(known.into_iter()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        bson::Deserializer::new(self.0).deserialize_enum(name, variants, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        bson::Deserializer::new(self.0).deserialize_newtype_struct(name, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, bson::error::Error> for Given {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Returns a duration as its type is read.
fn milliseconds(value: &Bson) -> Option<Document> {
    let milliseconds = crate::integer(value)?;
    Some(doc! {"secs": milliseconds / 1000, "nanos": milliseconds % 1000 * 1_000_000})
}
