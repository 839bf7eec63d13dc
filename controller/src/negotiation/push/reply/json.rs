//! JSON whose objects keep fields that are there twice.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::SeqAccessDeserializer},
};
use serde_json::Value;

/// A value of JSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    /// The fields of an object in their order.
    Object(Vec<(String, Json)>),
    Other(Value),
}

/// Fields of an object, or of several.
#[derive(Debug)]
pub(super) struct Fields<'j>(Vec<(&'j str, &'j Json)>);

impl<'j> Fields<'j> {
    /// Returns the fields of an object.
    pub(super) fn of(object: &'j [(String, Json)]) -> Self {
        Self(object.iter().map(|(name, value)| (name.as_str(), value)).collect())
    }

    /// Returns the fields of several objects.
    pub(super) fn all_of(objects: &[Self]) -> Self {
        Self(objects.iter().flat_map(|object| object.0.iter().copied()).collect())
    }

    /// Returns the values of a field, nulls aside. Its name counts in any spelling: `podUid`, `PodUid`,
    /// `pod_uid`.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &'j Json> {
        self.0
            .iter()
            .filter(move |(other, value)| is_same(other, name) && **value != Json::Other(Value::Null))
            .map(|(_, value)| *value)
    }

    /// Returns the first text of a field. Another value is the text that JSON has for it.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.all(name).next().map(|value| match value {
            Json::Other(Value::String(text)) => text.clone(),
            other => other.to_string(),
        })
    }
}

/// Returns true for the same letters and digits.
fn is_same(one: &str, other: &str) -> bool {
    fn letters(name: &str) -> impl Iterator<Item = char> {
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase())
    }
    letters(one).eq(letters(other))
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(_) => f.write_str("an object"),
            Self::Other(value) => value.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Other(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Other(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Other(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Other(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Other(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Other(Value::Null))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, items: A) -> Result<Json, A::Error> {
        Value::deserialize(SeqAccessDeserializer::new(items)).map(Json::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Json, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = object.next_entry()? {
            fields.push(field);
        }
        Ok(Json::Object(fields))
    }
}
