//! Variables that expressions see.

use kube_cel::{
    KubeCelExt,
    cel::{Context, Value as Cel},
};
use machinery_auth::ResourceAttributes;
use serde_json::Value;

use super::{
    authorizer::{self, Authz},
    bounded,
    budget::Budget,
    functions, to_cel,
};
use crate::{request::AdmissionRequest, subject::Subject};

/// Variables that all expressions of one write see. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Environment {
    object: Cel,
    old: Cel,
    request: Cel,
    namespace: Cel,
    authz: Authz,
    resource: ResourceAttributes,
}

impl Environment {
    /// Gathers the variables. `namespace` is the metadata of the namespace.
    pub(crate) fn new(subject: &Subject<'_>, namespace: Option<&Value>, authz: Authz) -> Self {
        let attributes = subject.attributes;
        let variable = |value: Option<&Value>| value.map_or(Cel::Null, to_cel);
        let request = serde_json::to_value(AdmissionRequest::new(subject)).unwrap_or_default();
        let resource = ResourceAttributes::new(attributes.group, attributes.version, attributes.resource)
            .subresource(&attributes.context.subresource)
            .in_namespace(&attributes.context.namespace)
            .named(attributes.name);
        Self {
            object: variable(subject.object),
            old: variable(subject.old),
            request: to_cel(&request),
            namespace: variable(namespace),
            authz,
            resource,
        }
    }

    /// Returns the variables of an object alone.
    pub(crate) fn of_object(object: &Value, authz: Authz) -> Self {
        let (object, none) = (to_cel(object), Cel::Null);
        let [old, request, namespace] = [none.clone(), none.clone(), none];
        Self { object, old, request, namespace, authz, resource: ResourceAttributes::new("", "v1", "pots") }
    }

    /// Returns a context with the variables and functions, which spends from a budget.
    pub(crate) fn context(&self, params: Option<&Cel>, budget: &Budget) -> Context<'static> {
        let mut context = Context::default().with_all();
        functions::add_to(&mut context);
        bounded::add_to(&mut context);
        authorizer::add_to(&mut context, &self.authz, &self.resource);
        budget.add_to(&mut context);
        let variables = [
            ("object", &self.object),
            ("oldObject", &self.old),
            ("request", &self.request),
            ("namespaceObject", &self.namespace),
            ("params", params.unwrap_or(&Cel::Null)),
        ];
        for (name, value) in variables {
            context.add_variable_from_value(name, value.clone());
        }
        context
    }
}
