//! Random values of a shape, and random changes of them.

use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Map, Value, json};

use super::shapes::{Key, Shape};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "x", "y"];
const TEXTS: [&str; 9] = ["x", "y", "z", "", "a\"b", "<&>", "\u{2028}\u{a0}ü", "80", "\n\u{7}\\"];

/// Frequency of faulty documents.
#[derive(Clone, Copy)]
pub(crate) struct Faults {
    /// A value of a wrong type or an unknown field, in a thousand.
    pub(crate) wrong: u32,
    /// Items of one identity are kept, in a hundred lists.
    pub(crate) duplicates: u32,
}

pub(crate) fn value(rng: &mut StdRng, shape: &Shape, faults: Faults) -> Value {
    if rng.random_ratio(1, 25) {
        return Value::Null;
    }
    if rng.random_ratio(faults.wrong, 1000) {
        return [json!(1), json!("x"), json!({"a": 1}), json!([1]), json!(true)].choose(rng).unwrap().clone();
    }
    match shape {
        Shape::Text => text(rng),
        Shape::Time => json!(["2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"].choose(rng).unwrap()),
        Shape::Integer => integer(rng),
        Shape::Number => {
            [json!(0), json!(1), json!(1.0), json!(1.5), json!(-2), json!(1e-7)].choose(rng).unwrap().clone()
        }
        Shape::Flag => json!(rng.random::<bool>()),
        Shape::IntOrString => {
            if rng.random() {
                text(rng)
            } else {
                integer(rng)
            }
        }
        Shape::Free { object } => free(rng, 3, *object),
        Shape::Struct { fields, preserve, .. } => {
            let mut object = Map::new();
            for (name, field) in fields {
                if rng.random_ratio(3, 5) {
                    object.insert(name.clone(), value(rng, field, faults));
                }
            }
            if *preserve || rng.random_ratio(faults.wrong, 500) {
                for name in ["u", "v"] {
                    if rng.random() {
                        object.insert(name.to_owned(), free(rng, 2, false));
                    }
                }
            }
            Value::Object(object)
        }
        Shape::Map { values, .. } => {
            let entries = (0..rng.random_range(0..4)).map(|_| {
                let name = *NAMES.choose(rng).unwrap();
                (name.to_owned(), value(rng, values, faults))
            });
            Value::Object(entries.collect())
        }
        Shape::List { items, .. } => (0..rng.random_range(0..4)).map(|_| value(rng, items, faults)).collect(),
        Shape::Set { .. } | Shape::Keyed { .. } => {
            let items: Vec<Value> = (0..rng.random_range(0..5)).map(|_| item(rng, shape, faults)).collect();
            distinct(rng, shape, items, faults)
        }
        Shape::Tree { .. } => tree(rng, 3),
        Shape::Trees => tree(rng, 3)["branches"].take(),
        Shape::Embedded => {
            let mut object = free(rng, 2, true);
            object["kind"] = text(rng);
            object["metadata"] = json!({"finalizers": ["x"], "labels": {"a": (text(rng))}});
            object
        }
    }
}

fn text(rng: &mut StdRng) -> Value {
    let choices = if rng.random_ratio(4, 5) { 3 } else { TEXTS.len() };
    json!(TEXTS[rng.random_range(0..choices)])
}

fn integer(rng: &mut StdRng) -> Value {
    if rng.random_ratio(1, 20) {
        return [json!(1_234_567), json!(9_007_199_254_740_993_i64), json!(-5)].choose(rng).unwrap().clone();
    }
    [80, 81, 82].choose(rng).map(|number| json!(number)).unwrap()
}

fn free(rng: &mut StdRng, depth: usize, object: bool) -> Value {
    match rng.random_range(0..6) {
        0 if !object => text(rng),
        1 if !object => json!(rng.random_range(0..3)),
        2 if !object => Value::Null,
        3 if !object && depth > 0 => {
            (0..rng.random_range(0..3)).map(|_| free(rng, depth - 1, false)).collect()
        }
        _ if depth > 0 => {
            let fields = (0..rng.random_range(0..3)).map(|_| {
                let name = *NAMES.choose(rng).unwrap();
                (name.to_owned(), free(rng, depth - 1, false))
            });
            Value::Object(fields.collect())
        }
        _ => json!({}),
    }
}

fn tree(rng: &mut StdRng, depth: usize) -> Value {
    let mut node = json!({"leaf": TEXTS[rng.random_range(0..3)]});
    if depth > 0 && rng.random() {
        let mut branches: Vec<Value> = (0..rng.random_range(0..3)).map(|_| tree(rng, depth - 1)).collect();
        branches.sort_by_key(|branch| branch["leaf"].to_string());
        branches.dedup_by_key(|branch| branch["leaf"].to_string());
        node["branches"] = branches.into();
    }
    node
}

fn item(rng: &mut StdRng, list: &Shape, faults: Faults) -> Value {
    match list {
        Shape::Keyed { items, keys } => {
            let mut item = value(rng, items, faults);
            while !item.is_object() {
                item = value(rng, items, Faults { wrong: 0, ..faults });
            }
            for Key { name, number, default } in keys {
                let optional = default.is_some() || keys.len() > 1;
                if !(optional && rng.random_ratio(1, 3)) {
                    let key = if *number { integer(rng) } else { text(rng) };
                    item[name] = key;
                }
            }
            let missing = keys.iter().all(|key| key.default.is_none() && item.get(key.name).is_none());
            if missing && !rng.random_ratio(faults.wrong, 1000) {
                let Key { name, number, .. } = &keys[0];
                item[name] = if *number { integer(rng) } else { text(rng) };
            }
            item
        }
        Shape::Set { items } => {
            let mut item = value(rng, items, faults);
            while item.is_null() {
                item = value(rng, items, faults);
            }
            item
        }
        Shape::List { items, .. } => value(rng, items, faults),
        _ => unreachable!("a list"),
    }
}

/// Removes items of one identity, unless they are wanted.
fn distinct(rng: &mut StdRng, list: &Shape, items: Vec<Value>, faults: Faults) -> Value {
    if rng.random_ratio(faults.duplicates, 100) {
        return items.into();
    }
    let mut seen = Vec::new();
    let unseen = items.into_iter().filter(|item| {
        let identity = match list {
            Shape::Keyed { keys, .. } => keys
                .iter()
                .map(|key| item.get(key.name).cloned().or_else(|| key.default.clone()).unwrap_or_default())
                .collect(),
            _ => match item.as_f64() {
                Some(number) => json!(number),
                None => item.clone(),
            },
        };
        let new = !seen.contains(&identity);
        seen.push(identity);
        new
    });
    unseen.collect()
}

/// Changes a value here and there.
pub(crate) fn changed(rng: &mut StdRng, shape: &Shape, before: &Value, faults: Faults) -> Value {
    if rng.random_ratio(1, 6) {
        return value(rng, shape, faults);
    }
    match (shape, before) {
        (Shape::Struct { fields, .. }, Value::Object(object)) => {
            let mut object = object.clone();
            for (name, field) in fields {
                match (object.get(name).cloned(), rng.random_range(0..10)) {
                    (Some(_), 0) => {
                        object.remove(name);
                    }
                    (Some(old), 1..5) => {
                        object.insert(name.clone(), changed(rng, field, &old, faults));
                    }
                    (None, 0..2) => {
                        object.insert(name.clone(), value(rng, field, faults));
                    }
                    _ => {}
                }
            }
            Value::Object(object)
        }
        (Shape::Map { values, .. }, Value::Object(object)) => {
            let mut object = object.clone();
            object.retain(|_, _| !rng.random_ratio(1, 6));
            for field in object.values_mut() {
                if rng.random_ratio(1, 4) {
                    *field = changed(rng, values, &field.clone(), faults);
                }
            }
            if rng.random_ratio(1, 3) {
                let name = *NAMES.choose(rng).unwrap();
                object.insert(name.to_owned(), value(rng, values, faults));
            }
            Value::Object(object)
        }
        (Shape::List { .. } | Shape::Set { .. } | Shape::Keyed { .. }, Value::Array(items)) => {
            let mut items = items.clone();
            items.retain(|_| !rng.random_ratio(1, 6));
            if let Shape::Keyed { items: shape, .. } = shape {
                for item in items.iter_mut().filter(|item| item.is_object()) {
                    if rng.random_ratio(1, 3) {
                        let keys = item.clone();
                        *item = changed(rng, shape, item, faults);
                        for name in ["name", "port"] {
                            if let (Some(key), true) = (keys.get(name), item.is_object()) {
                                item[name] = key.clone();
                            }
                        }
                    }
                }
            }
            items.retain(|item| !item.is_null());
            if items.len() > 1 && rng.random_ratio(1, 4) {
                let (left, right) = (rng.random_range(0..items.len()), rng.random_range(0..items.len()));
                items.swap(left, right);
            }
            if rng.random_ratio(1, 3) {
                items.insert(rng.random_range(0..=items.len()), item(rng, shape, faults));
            }
            match shape {
                Shape::List { .. } => items.into(),
                list => distinct(rng, list, items, faults),
            }
        }
        _ => value(rng, shape, faults),
    }
}
