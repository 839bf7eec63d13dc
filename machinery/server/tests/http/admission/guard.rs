//! A plugin of admission that records its calls.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use machinery_server::{Admission, AdmissionAttributes, ApiError, Interception, MutableObject, Reason};
use serde_json::{Value, json};

use crate::support::{Kitchen, Setup};

/// Change that a guard makes to each object.
pub(super) type Change = Box<dyn Fn(&mut Value) + Send + Sync>;

/// One call of a guard.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) step: &'static str,
    pub(super) operation: String,
    pub(super) resource: String,
    pub(super) name: String,
    pub(super) dry_run: bool,
    pub(super) object: Value,
    pub(super) old: Value,
    pub(super) options: Value,
}

/// A plugin that writes down its calls, changes every object, and denies those with the label `denied`.
#[derive(Default)]
pub(super) struct Guard {
    pub(super) change: Mutex<Option<Change>>,
    calls: Mutex<Vec<Call>>,
    pub(super) looks: AtomicUsize,
    /// True when the guard intercepts nothing.
    idle: bool,
}

impl Guard {
    pub(super) fn changing(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { change: Mutex::new(Some(Box::new(change))), ..Self::default() })
    }

    /// A guard that intercepts nothing.
    pub(super) fn idle() -> Arc<Self> {
        Arc::new(Self { idle: true, ..Self::default() })
    }

    fn note(
        &self,
        step: &'static str,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        let resource = match attributes.context.subresource.as_str() {
            "" => attributes.resource.to_owned(),
            subresource => format!("{}/{subresource}", attributes.resource),
        };
        let call = Call {
            step,
            operation: format!("{:?}", attributes.context.operation),
            resource,
            name: attributes.name.to_owned(),
            dry_run: attributes.context.dry_run,
            object: object.cloned().unwrap_or_default(),
            old: old.cloned().unwrap_or_default(),
            options: attributes.options.cloned().unwrap_or_default(),
        };
        self.calls.lock().expect("no panic").push(call);
        let denied = [object, old].into_iter().flatten();
        if denied.into_iter().any(|object| object.pointer("/metadata/labels/denied") == Some(&json!(step))) {
            return Err(ApiError::status(Reason::Forbidden, format!("{step} says no")));
        }
        Ok(())
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().expect("no panic"))
    }

    /// The steps, operations, resources and names of the calls.
    pub(super) fn steps(&self) -> Vec<String> {
        let line = |call: &Call| format!("{} {} {} {}", call.step, call.operation, call.resource, call.name);
        self.calls().iter().map(line).collect()
    }
}

#[derive(Default)]
struct Guards(Arc<Guard>);

impl Admission for Guards {
    fn intercept(&self, _: &AdmissionAttributes<'_>) -> Option<Box<dyn Interception>> {
        self.0.looks.fetch_add(1, Ordering::Relaxed);
        (!self.0.idle).then(|| Box::new(Guards(self.0.clone())) as Box<dyn Interception>)
    }
}

#[async_trait]
impl Interception for Guards {
    fn mutates(&self) -> bool {
        true
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut dyn MutableObject>,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        self.0.note("mutate", attributes, object.as_deref().map(MutableObject::value), old)?;
        let Some(object) = object else { return Ok(()) };
        let mut value = object.value().clone();
        if let Some(change) = &*self.0.change.lock().expect("no panic") {
            change(&mut value);
        }
        object.replace(value)
    }

    fn validates(&self) -> bool {
        true
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        self.0.note("validate", attributes, object, old)
    }
}

pub(super) async fn guarded(guard: &Arc<Guard>) -> Kitchen {
    let admission = Some(Arc::new(Guards(guard.clone())) as Arc<dyn Admission>);
    Kitchen::with(Setup { admission, ..Setup::default() }).await
}
