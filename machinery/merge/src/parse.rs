//! From bytes to a value, noticing fields that are given twice.

use std::{cell::Cell, collections::BTreeSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{
    DuplicateKeyPolicy, MergeKeyPolicy, Options, alias_limits, budget, budget::BudgetBreach, options,
    with_deserializer_from_slice_with_options,
};

use crate::{
    DecodeError,
    finding::{self, MAX_FINDINGS},
};

/// Maximum growth of a YAML document by its aliases. Without aliases no document grows more: every value
/// takes at least one byte, and no escape of two bytes stands for more than three.
const MAX_GROWTH: usize = 4;
/// Maximum growth of a manifest by its aliases and merge keys.
const MAX_MANIFEST_GROWTH: usize = 64;
/// Size in bytes up to which a manifest may grow by more than [`MAX_GROWTH`]. A mapping takes some hundred
/// times the memory that it counts.
const MAX_GROWN: usize = 1024 * 1024;
/// Key whose value is merged into the mapping around it.
const MERGE_KEY: &str = "<<";
/// Maximum nesting of a YAML document. The parser needs much of the stack for each level.
const MAX_DEPTH: usize = 64;

/// A document, and the fields that it gives more than once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// The document. Of a field that is given twice, the last counts.
    pub value: Value,
    /// The paths of the fields that are given more than once, such as `spec.requesters[0].name`: at most 100,
    /// each cut to 256 bytes.
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
    let parsed = parse(&mut deserializer, usize::MAX, false).map_err(|error| malformed(&error))?;
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
    read_yaml(bytes, length(bytes).saturating_mul(MAX_GROWTH), false)
}

/// Reads one YAML document, which may be JSON, as kubectl reads a manifest: merge keys (`<<`) are replaced by
/// the fields of their mappings. As in kubectl's parser, the later field of a mapping counts, and the first
/// mapping of a list.
///
/// # Errors
///
/// [`DecodeError::Malformed`] as in [`parse_yaml`], with another limit of aliases: they make a document at
/// most 64 times as large as it is written, and beyond 1 MiB at most four times. Also when a merge key has
/// another value than a mapping or a list of mappings.
pub fn parse_manifest(bytes: &[u8]) -> Result<Parsed, DecodeError> {
    let length = length(bytes);
    let most = length.saturating_mul(MAX_MANIFEST_GROWTH).min(MAX_GROWN);
    read_yaml(bytes, most.max(length.saturating_mul(MAX_GROWTH)), true)
}

/// Size of a document for its limits.
fn length(bytes: &[u8]) -> usize {
    bytes.len().saturating_add(1)
}

fn read_yaml(bytes: &[u8], most: usize, has_merges: bool) -> Result<Parsed, DecodeError> {
    // Clients send JSON as YAML when they apply. It is read three times as fast as JSON.
    if bytes.trim_ascii_start().starts_with(b"{")
        && let Ok(parsed) = parse_json(bytes)
    {
        return Ok(parsed);
    }
    let parsed = with_deserializer_from_slice_with_options(bytes, yaml(), |document| {
        parse(document, most, has_merges)
    });
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
fn parse<'de, D: Deserializer<'de>>(
    deserializer: D,
    most: usize,
    has_merges: bool,
) -> Result<Parsed, D::Error> {
    let (left, mut duplicate_fields) = (Cell::new(most), Vec::new());
    let node = Node { path: Path::Root, left: &left, has_merges, duplicates: &mut duplicate_fields };
    let value = node.deserialize(deserializer)?;
    Ok(Parsed { value, duplicate_fields })
}

/// Adds the fields of a merge key's value to those of the mapping around it. `merged` names the fields that
/// only merge keys gave: the mapping may give them, too.
fn merge(
    value: Value,
    fields: &mut Map<String, Value>,
    merged: &mut BTreeSet<String>,
) -> Result<(), &'static str> {
    let items = match value {
        Value::Array(items) => items,
        one => vec![one],
    };
    // The first mapping counts, so it comes last.
    for item in items.into_iter().rev() {
        let Value::Object(item) = item else {
            return Err("the value of a merge key is neither a mapping nor a list of mappings");
        };
        for (key, value) in item {
            if fields.insert(key.clone(), value).is_none() {
                merged.insert(key);
            }
        }
    }
    Ok(())
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
    /// Merge keys are replaced.
    has_merges: bool,
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
            has_merges: self.has_merges,
            duplicates: &mut *self.duplicates,
        })? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let (mut fields, mut merged) = (Map::new(), BTreeSet::new());
        while let Some(key) = access.next_key::<String>()? {
            self.spend(key.len())?;
            let path = Path::Key(&self.path, &key);
            let is_merge = self.has_merges && key == MERGE_KEY;
            let is_again = !is_merge && !merged.remove(&key) && fields.contains_key(&key);
            if is_again && self.duplicates.len() < MAX_FINDINGS {
                let path = finding::path(&path);
                if !self.duplicates.contains(&path) {
                    self.duplicates.push(path);
                }
            }
            let value = access.next_value_seed(Node {
                path,
                left: self.left,
                has_merges: self.has_merges,
                duplicates: &mut *self.duplicates,
            })?;
            if is_merge {
                merge(value, &mut fields, &mut merged).map_err(A::Error::custom)?;
            } else {
                fields.insert(key, value);
            }
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
