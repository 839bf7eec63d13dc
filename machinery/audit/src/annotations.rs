//! Annotations of an event.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Maximum size of the keys and values of a request's annotations together.
const MOST_BYTES: usize = 64 * 1024;

/// Annotations of the events of one request, such as the reason of a decision. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct AuditAnnotations(Arc<Mutex<BTreeMap<String, String>>>);

impl AuditAnnotations {
    /// Sets an annotation. As in kube-apiserver, the first value of a key stays.
    ///
    /// The key names the component, such as `authorization.k8s.io/decision`. One that does not fit into
    /// 64 KiB with the others is left out.
    pub fn add(&self, key: impl Into<String>, value: impl Into<String>) {
        let (key, value) = (key.into(), value.into());
        let mut annotations = self.lock();
        let size: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        match annotations.get(&key) {
            Some(first) if *first == value => {}
            // Callers can provoke both, as often as they like.
            Some(_) => tracing::debug!(key, "audit annotation has another value already"),
            None if size + key.len() + value.len() > MOST_BYTES => {
                tracing::debug!(key, "audit annotation does not fit");
            }
            None => {
                annotations.insert(key, value);
            }
        }
    }

    /// The annotations so far.
    pub fn all(&self) -> BTreeMap<String, String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_of_a_key_stays_and_what_does_not_fit_is_left_out() {
        let annotations = AuditAnnotations::default();
        annotations.add("a", "1");
        annotations.clone().add("a", "2");
        annotations.add("b", "x".repeat(MOST_BYTES));
        annotations.add("c", "3");
        let all = annotations.all();
        assert_eq!(
            all.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>(),
            ["a=1", "c=3"]
        );
    }
}
