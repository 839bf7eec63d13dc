//! A cache of ConfigMaps, for tests.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use machinery_storage::{History, KeyValue};

use super::{Cache, Entry, Head};
use crate::stored::Stored;

/// Returns an empty cache. The only selectable field is the colour in the data.
pub(crate) fn cache() -> Cache<ConfigMap> {
    cache_of(History::only())
}

/// Returns an empty cache of a store with that history.
pub(crate) fn cache_of(history: History) -> Cache<ConfigMap> {
    let colour = |object: &ConfigMap| object.data.as_ref()?.get("colour").cloned();
    let heads = move |object: &ConfigMap| {
        Head::new(object, std::iter::once(colour(object).unwrap_or_default()), None, None)
    };
    Cache::new("configmaps".to_owned(), Box::new(heads), Box::new(|_, _| None), history)
}

/// Returns an object as the cache keeps it, under a key such as `n/a`.
pub(crate) fn entry(key: &str, revision: i64, mut object: ConfigMap) -> Arc<Entry<ConfigMap>> {
    object.metadata.name = key.split('/').next_back().map(str::to_owned);
    let stored = Stored::new(object, revision);
    cache().entry(key, &stored).expect("an entry")
}

/// Returns an object with a text of that length, as the store has it.
pub(crate) fn of_size(key: &str, revision: i64, size: usize) -> Arc<Entry<ConfigMap>> {
    let value = format!(r#"{{"data":{{"text":"{}"}}}}"#, "x".repeat(size.saturating_sub(20)));
    let found = KeyValue {
        key: key.to_owned(),
        value: value.into(),
        create_revision: revision,
        mod_revision: revision,
    };
    let stored = Stored::decode(&found).expect("an object");
    cache().entry(key, &stored).expect("an entry")
}
