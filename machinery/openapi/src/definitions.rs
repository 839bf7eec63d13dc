//! The definitions of one group and version, by the names that Kubernetes gives them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::Schema;
use serde_json::Value;

use crate::{
    DocumentError, GroupVersion, Object, ServedResource, ServedVersion, keywords,
    schema::{Converter, Problem, V3_PREFIX},
    standard::{self, GVK},
    walk::references,
};

/// Values by group, version and kind.
pub(crate) type ByKind<T> = BTreeMap<(GroupVersion, String), T>;

/// Schemas in the words of OpenAPI v3, by name.
#[derive(Debug)]
pub(crate) struct Definitions {
    own: GroupVersion,
    by_name: BTreeMap<String, Value>,
    by_kind: ByKind<String>,
    /// Kinds that were added, and the names of their definitions.
    kinds: BTreeSet<(String, String)>,
}

impl Definitions {
    /// The definitions of every kind of a version, of their lists, and of what they refer to.
    pub(crate) fn new(group: &str, version: &ServedVersion) -> Result<Self, DocumentError> {
        let own = GroupVersion { group: group.to_owned(), version: version.version.clone() };
        let mut definitions = Self {
            own: own.clone(),
            by_name: BTreeMap::new(),
            by_kind: BTreeMap::new(),
            kinds: BTreeSet::new(),
        };
        let standard = standard::definitions(&own).map_err(|(name, problem)| schema_error(name, problem))?;
        for (name, schema) in standard {
            definitions.insert(name, schema)?;
        }
        for resource in &version.resources {
            definitions.add_resource(resource)?;
        }
        definitions.check_references()?;
        Ok(definitions)
    }

    /// The name of the definition of a kind.
    pub(crate) fn name_of(&self, group_version: &GroupVersion, kind: &str) -> Result<&str, DocumentError> {
        self.by_kind.get(&(group_version.clone(), kind.to_owned())).map(String::as_str).ok_or_else(|| {
            DocumentError::Unresolved {
                definition: format!("{}/{}", self.own.group, self.own.version),
                reference: kind.to_owned(),
            }
        })
    }

    /// The schemas by name.
    pub(crate) fn into_schemas(self) -> BTreeMap<String, Value> {
        self.by_name
    }

    /// Returns the definitions of one kind and of what it refers to, and the name of its own.
    pub(crate) fn of_kind(
        kind: &str,
        own: &GroupVersion,
        schema: &Schema,
    ) -> Result<(BTreeMap<String, Value>, String), DocumentError> {
        let version = ServedVersion { version: own.version.clone(), resources: Vec::new() };
        let mut definitions = Self::new(&own.group, &version)?;
        let root = definitions.add_kind(own, kind, schema)?;
        definitions.check_references()?;
        Ok((definitions.by_name, root))
    }

    fn add_resource(&mut self, resource: &ServedResource) -> Result<(), DocumentError> {
        let own = self.own.clone();
        let definition = self.add_kind(&own, &resource.kind, &resource.schema)?;
        if resource.verbs.iter().any(|verb| verb == "list") {
            let name = full_name(&own, &resource.list_kind);
            let mut list = standard::list(&resource.list_kind, &resource.kind, &definition);
            mark(&mut list, &own, &resource.list_kind);
            self.insert(name.clone(), list)?;
            self.by_kind.insert((own.clone(), resource.list_kind.clone()), name);
        }
        for sub in &resource.subresources {
            if let Some(schema) = &sub.schema {
                self.add_kind(sub.group_version.as_ref().unwrap_or(&own), &sub.kind, schema)?;
            }
        }
        Ok(())
    }

    /// Adds the root schema of a kind and its `$defs`.
    fn add_kind(
        &mut self,
        owner: &GroupVersion,
        kind: &str,
        schema: &Schema,
    ) -> Result<String, DocumentError> {
        let root = schema.as_value();
        // Types that Kubernetes names itself carry their full name as the title.
        let title = root.get("title").and_then(Value::as_str).filter(|title| title.contains('.'));
        let root_name = title.map_or_else(|| full_name(owner, kind), str::to_owned);
        let none = Object::new();
        let parts = root.get("$defs").and_then(Value::as_object).unwrap_or(&none);
        let name = |name: &str| match name {
            "#" => root_name.clone(),
            known if known.contains('.') => known.to_owned(),
            short => full_name(owner, short),
        };
        let converter = Converter { definitions: parts, full_name: &name };
        let convert = |definition: &str, schema: &Value| {
            converter.convert(schema, "").map_err(|problem| schema_error(definition.to_owned(), problem))
        };
        for (part, schema) in parts {
            if !Converter::is_inlined(part, schema) {
                let part = name(part);
                let schema = convert(&part, schema)?;
                self.insert(part, schema)?;
            }
        }
        let mut whole = convert(&root_name, root)?;
        mark(&mut whole, owner, kind);
        // As in Kubernetes' own documents. A custom resource may not have them either.
        for field in ["/properties/apiVersion", "/properties/kind"] {
            if let Some(field) = whole.pointer_mut(field).and_then(Value::as_object_mut) {
                field.remove("default");
            }
        }
        self.insert(root_name.clone(), whole)?;
        self.by_kind.insert((owner.clone(), kind.to_owned()), root_name.clone());
        self.kinds.insert((kind.to_owned(), root_name.clone()));
        Ok(root_name)
    }

    fn insert(&mut self, name: String, mut schema: Value) -> Result<(), DocumentError> {
        standard::restore(&name, &mut schema);
        match self.by_name.get_mut(&name) {
            None => {
                self.by_name.insert(name, schema);
            }
            Some(known) => {
                // A type may be a kind in one place and a part of another kind elsewhere.
                let kinds = take_kinds(known).or_else(|| take_kinds(&mut schema));
                take_kinds(&mut schema);
                if *known != schema {
                    return Err(DocumentError::Ambiguous { definition: name });
                }
                if let (Some(kinds), Some(known)) = (kinds, known.as_object_mut()) {
                    known.insert(GVK.to_owned(), kinds);
                }
            }
        }
        Ok(())
    }

    /// Checks that objects of each kind can be checked and merged.
    pub(crate) fn check_kinds(&self) -> Result<(), DocumentError> {
        for (kind, root) in &self.kinds {
            keywords::check(kind, &self.by_name, root)?;
            shape(kind, &self.by_name, root)?;
        }
        Ok(())
    }

    fn check_references(&self) -> Result<(), DocumentError> {
        for (definition, schema) in &self.by_name {
            for reference in references(schema) {
                let known =
                    reference.strip_prefix(V3_PREFIX).is_some_and(|name| self.by_name.contains_key(name));
                if !known {
                    return Err(DocumentError::Unresolved { definition: definition.clone(), reference });
                }
            }
        }
        Ok(())
    }
}

/// `dev.kitchen.v1alpha1.Pot` for the kind Pot of `kitchen.dev/v1alpha1`.
pub(crate) fn full_name(owner: &GroupVersion, name: &str) -> String {
    let reversed: Vec<&str> = owner.group.split('.').rev().filter(|part| !part.is_empty()).collect();
    reversed.into_iter().chain([owner.version.as_str(), name]).collect::<Vec<_>>().join(".")
}

/// Returns the shape by which objects of a kind are merged.
pub(crate) fn shape(
    kind: &str,
    schemas: &BTreeMap<String, Value>,
    root: &str,
) -> Result<machinery_schema::Schema, DocumentError> {
    machinery_schema::Schema::new(schemas, root)
        .map_err(|source| DocumentError::Shape { kind: kind.to_owned(), source })
}

/// Says of a schema which kind it is.
fn mark(schema: &mut Value, owner: &GroupVersion, kind: &str) {
    if let Some(schema) = schema.as_object_mut() {
        let kind = standard::kind(&owner.group, &owner.version, kind);
        schema.insert(GVK.to_owned(), Value::Array(vec![kind]));
    }
}

fn take_kinds(schema: &mut Value) -> Option<Value> {
    schema.as_object_mut()?.remove(GVK)
}

fn schema_error(definition: String, problem: Problem) -> DocumentError {
    DocumentError::Schema { definition, path: problem.path, problem: problem.problem }
}
