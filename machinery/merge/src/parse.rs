//! From bytes to a value, noticing fields that are given twice.

use std::{cell::Cell, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{
    DuplicateKeyPolicy, MergeKeyPolicy, Options, alias_limits, budget, budget::BudgetBreach, options,
    with_deserializer_from_slice_with_options,
};

use crate::DecodeError;

/// Maximum number of findings of one sort, as in Kubernetes' own decoder.
pub(crate) const MAX_FINDINGS: usize = 100;
/// Maximum growth of a YAML document by its aliases. Without aliases no document grows more: every value
/// takes at least one byte, and no escape of two bytes stands for more than three.
const MAX_GROWTH: usize = 4;
/// Maximum nesting of a YAML document. The parser needs much of the stack for each level.
const MAX_DEPTH: usize = 64;

/// A document, and the fields that it gives more than once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// The document. Of a field that is given twice, the last counts.
    pub value: Value,
    /// The paths of the fields that are given more than once, such as `spec.requesters[0].name`; at most 100.
    pub duplicate_fields: Vec<String>,
}

/// Reads one JSON document.
///
/// # Errors
///
/// [`DecodeError::Malformed`] when it is not JSON, nested deeper than 128 levels or followed by something
/// else.
pub fn parse_json(bytes: &[u8]) -> Result<Parsed, DecodeError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed = parse(&mut deserializer, usize::MAX).map_err(|error| malformed(&error))?;
    deserializer.end().map_err(|error| malformed(&error))?;
    Ok(parsed)
}

/// Reads one YAML document, which may be JSON.
///
/// # Errors
///
/// [`DecodeError::Malformed`] when it is not YAML or holds what JSON cannot say, such as keys that are not
/// strings, when it is nested too deep, and when its aliases make it more than four times as large as it is
/// written.
pub fn parse_yaml(bytes: &[u8]) -> Result<Parsed, DecodeError> {
    // Clients send JSON as YAML when they apply. It is read three times as fast as JSON.
    if bytes.trim_ascii_start().starts_with(b"{")
        && let Ok(parsed) = parse_json(bytes)
    {
        return Ok(parsed);
    }
    let most = bytes.len().saturating_add(1).saturating_mul(MAX_GROWTH);
    let parsed = with_deserializer_from_slice_with_options(bytes, yaml(), |document| parse(document, most));
    parsed.map_err(|error| malformed(&words(&error)))
}

/// Returns the error of a caller who reached a limit in words of YAML.
fn words(error: &serde_saphyr::Error) -> String {
    let mut cause = error.without_snippet();
    while let serde_saphyr::Error::AliasError { error, .. } = cause {
        cause = error.without_snippet();
    }
    match cause {
        serde_saphyr::Error::Budget { breach: BudgetBreach::Documents { .. }, location } => {
            format!("there is more than one document at line {}", location.line())
        }
        serde_saphyr::Error::Budget { breach: BudgetBreach::Depth { .. }, location } => {
            let (line, column) = (location.line(), location.column());
            format!("it is nested deeper than {MAX_DEPTH} levels at line {line}, column {column}")
        }
        _ => error.without_snippet().to_string(),
    }
}

/// Returns the rules of YAML. The parser stops at the first value that is nested too deep. The length of the
/// document and the budget of [`parse`] bound all else.
fn yaml() -> Options {
    options! {
        budget: budget! {
            flow_nesting_limit: MAX_DEPTH,
            max_depth: MAX_DEPTH,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_aliases: usize::MAX,
            max_anchors: usize::MAX,
            max_documents: 1,
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: alias_limits! { max_total_replayed_events: usize::MAX },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::AsOrdinary,
        reject_unsupported_tags: true,
        strict_booleans: true,
        with_snippet: false,
    }
}

fn malformed(error: &dyn fmt::Display) -> DecodeError {
    DecodeError::Malformed { message: error.to_string() }
}

/// `most` bounds what is made of the document: one for each value, and the bytes of its texts.
fn parse<'de, D: Deserializer<'de>>(deserializer: D, most: usize) -> Result<Parsed, D::Error> {
    let mut duplicate_fields = Vec::new();
    let value = Node { path: Path::Root, left: &Cell::new(most), duplicates: &mut duplicate_fields }
        .deserialize(deserializer)?;
    Ok(Parsed { value, duplicate_fields })
}

/// Position of the parser in the document. It lives on the stack and becomes a string only for a report.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Self::Root, key) => write!(formatter, "{key}"),
            Self::Key(parent, key) => write!(formatter, "{parent}.{key}"),
            Self::Index(parent, index) => write!(formatter, "{parent}[{index}]"),
        }
    }
}

struct Node<'a> {
    path: Path<'a>,
    /// Remaining budget.
    left: &'a Cell<usize>,
    duplicates: &'a mut Vec<String>,
}

impl Node<'_> {
    /// Takes note of what is made, before it is.
    fn spend<E: serde::de::Error>(&self, size: usize) -> Result<(), E> {
        let left = self.left.get().checked_sub(size);
        self.left.set(left.ok_or_else(|| E::custom("its aliases make the document too large"))?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.spend(1)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.spend(value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(self, value: String) -> Result<Value, E> {
        self.spend(value.len())?;
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(Node {
            path: Path::Index(&self.path, items.len()),
            left: self.left,
            duplicates: &mut *self.duplicates,
        })? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            self.spend(key.len())?;
            let path = Path::Key(&self.path, &key);
            if fields.contains_key(&key) && self.duplicates.len() < MAX_FINDINGS {
                let path = path.to_string();
                if !self.duplicates.contains(&path) {
                    self.duplicates.push(path);
                }
            }
            let value =
                access.next_value_seed(Node { path, left: self.left, duplicates: &mut *self.duplicates })?;
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }

    fn visit_bytes<E: serde::de::Error>(self, _: &[u8]) -> Result<Value, E> {
        Err(E::custom("binary values are not supported"))
    }

    fn visit_enum<A: serde::de::EnumAccess<'de>>(self, _: A) -> Result<Value, A::Error> {
        Err(A::Error::custom("tagged values are not supported"))
    }
}
