//! Paths of fields and items.

use std::{cmp::Ordering, fmt, sync::Arc};

use serde_json::Value;

use crate::{go_text, value};

/// One step of a path. Cheap to clone.
///
/// The order is total: fields, keys, values, indices, and each of them by its content.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// Field of a map or struct.
    Field(Arc<str>),
    /// Item of a keyed list: the names and values of its key fields, sorted by name.
    Key(Arc<[(String, Value)]>),
    /// Item of a set.
    Value(Arc<Value>),
    /// Item of an atomic list.
    Index(i64),
}

impl PathElement {
    /// Makes the step to a field.
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// Makes the step to an item of a keyed list.
    pub fn key(mut fields: Vec<(String, Value)>) -> Self {
        fields.sort_by(|(left, _), (right, _)| left.cmp(right));
        Self::Key(fields.into())
    }

    /// Makes the step to an item of a set.
    pub fn value(item: Value) -> Self {
        Self::Value(Arc::new(item))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => compare_keys(left, right),
            (Self::Value(left), Self::Value(right)) => value::compare(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

fn compare_keys(left: &[(String, Value)], right: &[(String, Value)]) -> Ordering {
    let pairs = left.iter().zip(right);
    let orders =
        pairs.map(|(left, right)| left.0.cmp(&right.0).then_with(|| value::compare(&left.1, &right.1)));
    orders.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(formatter, ".{name}"),
            Self::Key(fields) => {
                let fields = fields.iter().map(|(name, value)| format!("{name}={}", go_text::display(value)));
                write!(formatter, "[{}]", fields.collect::<Vec<_>>().join(","))
            }
            Self::Value(item) => write!(formatter, "[={}]", go_text::display(item)),
            Self::Index(index) => write!(formatter, "[{index}]"),
        }
    }
}

/// Path of a field or item, such as `.spec.ports[port=80,protocol="TCP"].name`. The empty path is the whole
/// document.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<PathElement>);

impl Path {
    /// Makes the path through fields of maps and structs.
    pub fn fields(names: &[&str]) -> Self {
        Self(names.iter().copied().map(PathElement::field).collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(formatter))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(fields: &[(&str, Value)]) -> PathElement {
        PathElement::key(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }

    #[test]
    fn a_path_reads_as_in_conflict_messages() {
        let path = Path(vec![
            PathElement::field("spec"),
            PathElement::field("ports"),
            key(&[("protocol", json!("TCP")), ("port", json!(80))]),
            PathElement::field("names"),
            PathElement::value(json!("a\"b")),
            PathElement::Index(3),
        ]);
        assert_eq!(path.to_string(), r#".spec.ports[port=80,protocol="TCP"].names[="a\"b"][3]"#);
        assert_eq!(Path::default().to_string(), "");
    }

    #[test]
    fn elements_are_ordered_by_kind_and_then_by_content() {
        let sorted = [
            PathElement::field("a"),
            PathElement::field("b"),
            key(&[]),
            key(&[("a", json!(2))]),
            key(&[("a", json!(2)), ("b", json!(1))]),
            key(&[("a", json!(10))]),
            key(&[("b", json!(1))]),
            PathElement::value(json!(2)),
            PathElement::value(json!(10)),
            PathElement::value(json!("1")),
            PathElement::Index(1),
            PathElement::Index(2),
        ];
        for (at, left) in sorted.iter().enumerate() {
            for (other, right) in sorted.iter().enumerate() {
                assert_eq!(left.cmp(right), at.cmp(&other), "{left} and {right}");
            }
        }
    }
}
