//! Closed sets of words: how Rust enums without fields look in JSON Schema, and in Kubernetes' OpenAPI.

use serde_json::Value;

use crate::Object;

/// A closed set of words of one type, each with what it means.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Words {
    value_type: String,
    words: Vec<(Value, Option<String>)>,
}

impl Words {
    /// Reads `const`, `enum` and a `oneOf` or `anyOf` of these. `null` is passed over: a field that may be
    /// left out says so by not being required.
    pub(crate) fn of(schema: &Object) -> Option<Self> {
        if let Some(word) = schema.get("const") {
            let description = schema.get("description").and_then(Value::as_str).map(str::to_owned);
            return Self::new(vec![(word.clone(), description)]);
        }
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            let words =
                words.iter().filter(|word| !word.is_null()).map(|word| (word.clone(), None)).collect();
            return Self::new(words);
        }
        let alternatives = schema.get("oneOf").or_else(|| schema.get("anyOf"))?.as_array()?;
        let mut all = Self::default();
        for alternative in alternatives.iter().filter(|alternative| !is_null(alternative)) {
            all = all.and(Self::of(alternative.as_object()?)?)?;
        }
        (!all.words.is_empty()).then_some(all)
    }

    /// The words of both, when they are of one type.
    pub(crate) fn and(mut self, other: Self) -> Option<Self> {
        if self.words.is_empty() {
            return Some(other);
        }
        if self.value_type != other.value_type {
            return None;
        }
        for (word, description) in other.words {
            if !self.words.iter().any(|(known, _)| *known == word) {
                self.words.push((word, description));
            }
        }
        Some(self)
    }

    /// Writes `type` and `enum`, and what the words mean at the end of the description, in the form in which
    /// Kubernetes' own documents have it.
    pub(crate) fn write_to(&self, schema: &mut Object) {
        schema.insert("type".to_owned(), self.value_type.clone().into());
        schema.insert("enum".to_owned(), self.words.iter().map(|(word, _)| word.clone()).collect());
        let meanings: Vec<String> = self
            .words
            .iter()
            .filter_map(|(word, description)| {
                let meaning = description.as_ref()?.split_whitespace().collect::<Vec<_>>().join(" ");
                Some(format!(" - `{word}` {meaning}"))
            })
            .collect();
        if !meanings.is_empty() {
            let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
            let text = format!("{text}\n\nPossible enum values:\n{}", meanings.join("\n"));
            schema.insert("description".to_owned(), text.trim_start().into());
        }
    }

    fn new(words: Vec<(Value, Option<String>)>) -> Option<Self> {
        let value_type = match words.first()?.0 {
            Value::String(_) => "string",
            Value::Number(_) => "integer",
            Value::Bool(_) => "boolean",
            _ => return None,
        };
        let of_that_type = |word: &Value| match value_type {
            "string" => word.is_string(),
            "integer" => word.is_i64() || word.is_u64(),
            _ => word.is_boolean(),
        };
        let one_type = words.iter().all(|(word, _)| of_that_type(word));
        one_type.then(|| Self { value_type: value_type.to_owned(), words })
    }
}

/// True if a schema is that of `null`.
pub(crate) fn is_null(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("null")
        || schema.get("const").is_some_and(Value::is_null)
}

/// The word with its first letter in upper case.
pub(crate) fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
