//! JSON and single values as frameworks and people write them: whatever shows its meaning is read.
//!
//! Replies of apps and annotations of pods are read by these functions and no others. They accept a byte
//! order mark, blanks, numbers and truth values in quotes, names of fields in any spelling, fields that are
//! there twice, strings that JSON does not allow, and a text that was written as JSON twice.

mod mended;

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

use mended::mended;

/// A value of JSON, whose objects keep fields that are there twice.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// The fields of an object, in their order.
    Object(Vec<(String, Json)>),
    /// The items of a list.
    List(Vec<Json>),
    /// A string, a number, a truth value or null.
    Other(Value),
}

impl Json {
    /// Reads a text that holds one value.
    ///
    /// # Errors
    ///
    /// Fails when the text is not JSON, or when another text follows the value.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        let read = |text: &str| serde_json::from_str(&mended(text));
        match read(text)? {
            // It was written as JSON twice.
            Self::Other(Value::String(inner)) => read(&inner),
            value => Ok(value),
        }
    }

    /// Reads the values that a text begins with, one after the other. Also returns the rest of the text. An
    /// empty text has no value.
    ///
    /// # Errors
    ///
    /// Fails when the text does not begin with JSON.
    pub fn read_row(text: &str) -> Result<(Vec<Self>, String), serde_json::Error> {
        let (values, rest) = row(text)?;
        match values.first() {
            Some(Self::Other(Value::String(inner))) => row(inner),
            _ => Ok((values, rest)),
        }
    }

    /// Returns a string without the blanks and the quotes around it. `None` for any other value.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Other(Value::String(text)) => Some(bare(text)),
            _ => None,
        }
    }

    /// Returns true for a string with that word, in any case.
    pub fn is_word(&self, word: &str) -> bool {
        self.text().is_some_and(|text| text.eq_ignore_ascii_case(word))
    }

    /// Returns a truth value, which may be a word.
    pub fn truth(&self) -> Option<bool> {
        match self {
            Self::Other(Value::Bool(truth)) => Some(*truth),
            _ if self.is_word("true") => Some(true),
            _ if self.is_word("false") => Some(false),
            _ => None,
        }
    }

    /// Returns a whole number, which may be in quotes and have a fraction of zero.
    pub fn whole_number(&self) -> Option<i64> {
        self.number().filter(|number| number.fract() == 0.0).map(rounded_up)
    }

    /// Returns a number of seconds, which may be in quotes. A part of a second counts as a whole one. Numbers
    /// out of range become the nearest one in it.
    pub fn seconds(&self) -> Option<i64> {
        self.number().map(rounded_up)
    }

    fn number(&self) -> Option<f64> {
        let number = match self {
            Self::Other(Value::Number(number)) => number.as_f64(),
            _ => self.text()?.parse().ok(),
        };
        number.filter(|number| !number.is_nan())
    }
}

impl From<&str> for Json {
    /// Returns the string.
    fn from(text: &str) -> Self {
        Self::Other(text.into())
    }
}

/// Reads the values that a text begins with, and its rest.
fn row(text: &str) -> Result<(Vec<Json>, String), serde_json::Error> {
    let mended = mended(text);
    let mut values = serde_json::Deserializer::from_str(&mended).into_iter();
    let first: Option<Json> = values.next().transpose()?;
    let row = first.into_iter().chain(values.by_ref().map_while(Result::ok)).collect();
    let rest = mended.get(values.byte_offset()..).unwrap_or_default();
    Ok((row, trimmed(rest).to_owned()))
}

/// Returns a text without the blanks and byte order marks around it.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}')
}

/// Returns a text without the blanks and the quotes around it.
pub(crate) fn bare(text: &str) -> &str {
    let text = trimmed(text);
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).map_or(text, trimmed)
}

/// Returns the next whole number. Numbers out of range become the nearest one in it.
#[expect(clippy::cast_possible_truncation, reason = "whole, and the conversion saturates")]
pub(crate) fn rounded_up(number: f64) -> i64 {
    number.ceil() as i64
}

/// Fields of an object, or of several.
#[derive(Debug)]
pub struct JsonFields<'j>(Vec<(&'j str, &'j Json)>);

impl<'j> JsonFields<'j> {
    /// Returns the fields of an object.
    pub fn of(object: &'j [(String, Json)]) -> Self {
        Self(object.iter().map(|(name, value)| (name.as_str(), value)).collect())
    }

    /// Returns the fields of several objects.
    pub fn all_of(objects: &[Self]) -> Self {
        Self(objects.iter().flat_map(|object| object.0.iter().copied()).collect())
    }

    /// Returns the values of a field, nulls aside. Its name counts in any spelling: `podUid`, `PodUid`,
    /// `pod_uid`.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &'j Json> {
        self.0
            .iter()
            .filter(move |(other, value)| is_same(other, name) && **value != Json::Other(Value::Null))
            .map(|(_, value)| *value)
    }

    /// Returns the first text of a field, as it is. Another value is the text that JSON has for it.
    pub fn text(&self, name: &str) -> Option<String> {
        self.all(name).next().map(|value| match value {
            Json::Other(Value::String(text)) => text.clone(),
            other => other.to_string(),
        })
    }

    /// Returns the names of the fields that have none of the known names.
    pub fn unknown(&self, known: &[&str]) -> impl Iterator<Item = &'j str> {
        let names = self.0.iter().map(|(name, _)| *name);
        names.filter(move |name| !known.iter().any(|known| is_same(name, known)))
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
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", items.join(","))
            }
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

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Json, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = object.next_entry()? {
            fields.push(field);
        }
        Ok(Json::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_seconds_is_read_as_it_is_written_and_a_part_counts_as_a_whole_one() {
        for (text, whole, seconds) in [
            ("30", Some(30), Some(30)),
            ("30.0", Some(30), Some(30)),
            ("3e1", Some(30), Some(30)),
            ("\"30\"", Some(30), Some(30)),
            ("\" 30.0\\n\"", Some(30), Some(30)),
            ("\u{feff}30 ", Some(30), Some(30)),
            ("\"\\\"30\\\"\"", Some(30), Some(30)),
            ("1.5", None, Some(2)),
            ("-0.5", None, Some(0)),
            ("1e300", Some(i64::MAX), Some(i64::MAX)),
            ("\"nan\"", None, None),
            ("\"30 s\"", None, None),
            ("\"3 0\"", None, None),
            ("\"\"", None, None),
            ("true", None, None),
            ("null", None, None),
            ("[30]", None, None),
            ("{}", None, None),
        ] {
            let value = Json::read(text).ok();
            let found = value.map(|value| (value.whole_number(), value.seconds()));
            // A text that was written twice holds a number, or nothing that is JSON.
            assert_eq!(found.unwrap_or_default(), (whole, seconds), "{text}");
        }
    }

    #[test]
    fn a_truth_value_is_one_of_two_words() {
        for (text, truth) in [
            ("true", Some(true)),
            ("True", Some(true)),
            (" FALSE ", Some(false)),
            ("\"false\"", Some(false)),
            ("\u{feff}true", Some(true)),
            ("yes", None),
            ("1", None),
            ("", None),
            ("true false", None),
            ("tru\u{435}", None),
        ] {
            assert_eq!(Json::from(text).truth(), truth, "{text:?}");
        }
        assert_eq!(Json::Other(true.into()).truth(), Some(true));
        assert_eq!(Json::Other(1.into()).truth(), None);
    }

    #[test]
    fn a_text_holds_one_value_unless_those_that_it_begins_with_are_wanted() {
        for (text, whole, first) in [
            ("[1]", true, true),
            ("\u{feff}\u{a0}[1]\r\n", true, true),
            ("\"[1]\"", true, true),
            ("[1] [2]", false, true),
            ("[1],", false, true),
            ("", false, false),
            ("[1", false, false),
            ("'[1]'", false, false),
        ] {
            let list = Some(Json::List(vec![Json::Other(1.into())]));
            assert_eq!(Json::read(text).ok() == list, whole, "{text:?}");
            let (row, _) = Json::read_row(text).unwrap_or_default();
            assert_eq!(row.first() == list.as_ref(), first, "{text:?}");
        }
        for (text, values, rest) in [
            ("", 0, ""),
            ("[1] [2]\n3 ", 3, ""),
            ("[1][2] x 3", 2, "x 3"),
            ("[1] [2,] [3]", 1, "[2,] [3]"),
            ("\"1 2\" 3", 2, ""),
            ("\"\"", 0, ""),
        ] {
            let (row, left) = Json::read_row(text).unwrap();
            assert_eq!((row.len(), left.as_str()), (values, rest), "{text:?}");
        }
        assert!(Json::read_row("x [1]").is_err());
    }

    #[test]
    fn a_field_is_found_in_any_spelling_and_as_often_as_it_is_there() {
        let Ok(Json::Object(object)) = Json::read(
            r#"{"podUid": 1, "PodUID": 2, "pod_uid": null, "POD-UID": 3, "pod": 4, "podUid2": 5}"#,
        ) else {
            panic!("it is an object");
        };
        let fields = JsonFields::of(&object);
        let found: Vec<_> = fields.all("podUid").filter_map(Json::whole_number).collect();
        assert_eq!(found, [1, 2, 3]);
        assert_eq!(fields.unknown(&["podUid", "pod"]).collect::<Vec<_>>(), ["podUid2"]);
    }
}
