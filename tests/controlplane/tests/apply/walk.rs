//! Random sequences of writes of one object, as this crate's library answers them.

use std::collections::BTreeMap;

use jiff::{Timestamp, ToSpan};
use machinery_apply::{ApplyError, FieldSet, OneVersion, Writer, apply, track};
use machinery_schema::Schema;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Map, Value, json};

use super::shapes::{self, API_VERSION, Shape};
use super::values::{self, Faults};

const MANAGERS: [&str; 6] = ["kubectl", "kubectl", "a", "b", "c", ""];
const CLIENT_SIDE: &str = "kubectl-client-side-apply";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Answer to a write.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Written { object: Option<Value>, managed_fields: Value, fields: Vec<String> },
    Conflicts { message: String, causes: Vec<[String; 2]> },
    Failed { code: u16, message: String },
}

/// Writes with one schema, for the oracle, and our answers.
pub(crate) struct Case {
    pub(crate) request: Value,
    pub(crate) answers: Vec<Answer>,
}

pub(crate) struct Walk {
    rng: StdRng,
    kind: Shape,
    schema: Schema,
    faults: Faults,
    crowd: bool,
    step: i64,
    live: Option<Value>,
    configurations: BTreeMap<String, Value>,
    cases: Vec<Case>,
}

impl Walk {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let kind = shapes::kind(&mut rng);
        let faults = Faults {
            wrong: if rng.random_ratio(1, 4) { 10 } else { 0 },
            duplicates: if rng.random_ratio(1, 4) { 40 } else { 0 },
        };
        let crowd = rng.random_ratio(1, 20);
        let schema = Schema::new(&shapes::definitions(&kind, rng.random()), "Root").unwrap();
        let mut walk = Self {
            rng,
            kind,
            schema,
            faults,
            crowd,
            step: 0,
            live: None,
            configurations: BTreeMap::new(),
            cases: Vec::new(),
        };
        walk.begin_case();
        walk
    }

    fn begin_case(&mut self) {
        let definitions = shapes::definitions(&self.kind, false);
        let request =
            json!({"definitions": definitions, "apiVersion": API_VERSION, "kind": "Thing", "operations": []});
        self.cases.push(Case { request, answers: Vec::new() });
    }

    pub(crate) fn run(mut self) -> Vec<Case> {
        let steps = if self.crowd { 30 } else { self.rng.random_range(4..12) };
        for _ in 0..steps {
            if self.rng.random_ratio(1, 50) {
                self.change_schema();
            }
            if self.rng.random_ratio(1, 40) {
                self.age_a_manager();
            }
            let choice = self.rng.random_range(0..20);
            match choice {
                _ if self.crowd && choice > 1 => self.update(),
                0..11 => self.apply(),
                11..13 if self.live.is_some() => self.apply_on_the_client(),
                _ => self.update(),
            }
        }
        self.cases
    }

    /// Changes atomicity. Values stay, so that some do not fit any more.
    fn change_schema(&mut self) {
        let Shape::Struct { fields, map_type, preserve } = &self.kind else { unreachable!() };
        let fields = fields.clone();
        let (map_type, preserve) = (*map_type, *preserve);
        let toggled =
            fields.iter().map(|(name, field)| (name.clone(), shapes::toggled(&mut self.rng, field)));
        self.kind = Shape::Struct { fields: toggled.collect(), map_type, preserve };
        self.schema = Schema::new(&shapes::definitions(&self.kind, false), "Root").unwrap();
        self.begin_case();
    }

    fn age_a_manager(&mut self) {
        let live =
            self.live.as_mut().and_then(|live| live.pointer_mut("/metadata/managedFields/0/apiVersion"));
        if let Some(version) = live {
            *version = "example.com/v0".into();
        }
    }

    fn document(&mut self) -> Value {
        let mut document = values::value(&mut self.rng, &self.kind, self.faults);
        while !document.is_object() {
            document = values::value(&mut self.rng, &self.kind, self.faults);
        }
        self.finish(document, Map::new())
    }

    fn finish(&mut self, mut document: Value, mut metadata: Map<String, Value>) -> Value {
        let rng = &mut self.rng;
        metadata.insert("name".to_owned(), "thing".into());
        let mut some = |name: &str, all: &[Value]| {
            if rng.random_ratio(1, 3) {
                let some: Vec<Value> = all.iter().filter(|_| rng.random()).cloned().collect();
                metadata.insert(name.to_owned(), some.into());
            }
        };
        some("finalizers", &[json!("f1"), json!("f2"), json!("f3")]);
        some("ownerReferences", &[json!({"uid": "1", "name": "x"}), json!({"uid": "2"})]);
        if rng.random_ratio(1, 3) {
            let label = ["l1", "l2"].choose(rng).unwrap();
            metadata.insert("labels".to_owned(), json!({*label: (["x", "y"].choose(rng).unwrap())}));
        }
        document["apiVersion"] = API_VERSION.into();
        document["kind"] = "Thing".into();
        document["metadata"] = metadata.into();
        document
    }

    /// A document with some parts of another one changed.
    fn variation(&mut self, of: &Value) -> Value {
        let metadata = of["metadata"].as_object().cloned().unwrap_or_default();
        let changed = values::changed(&mut self.rng, &self.kind, of, self.faults);
        let changed = if changed.is_object() { changed } else { of.clone() };
        self.finish(changed, metadata)
    }

    fn configuration(&mut self, manager: &str) -> Value {
        match self.configurations.get(manager).cloned() {
            Some(last) => match self.rng.random_range(0..10) {
                0..2 => last,
                2..8 => self.variation(&last),
                _ => self.document(),
            },
            None => match self.live.clone() {
                Some(live) if self.rng.random_ratio(1, 3) => {
                    let mut variation = self.variation(&live);
                    variation["metadata"] = json!({"name": "thing"});
                    variation
                }
                _ => self.document(),
            },
        }
    }

    fn reset(&mut self, subresource: &str) -> Value {
        match (subresource, self.rng.random_range(0..3)) {
            ("", 0 | 1) => json!({"f:status": {}}),
            (_, 1 | 2) => json!({"f:spec": {}, "f:metadata": {"f:labels": {}}}),
            _ => json!({}),
        }
    }

    fn subresource(&mut self) -> &'static str {
        if self.rng.random_ratio(1, 8) { "status" } else { "" }
    }

    fn apply(&mut self) {
        let manager = *MANAGERS.choose(&mut self.rng).unwrap();
        let mut object = self.configuration(manager);
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|name, _| name != "managedFields" && name != "uid");
        }
        match self.rng.random_range(0..150) {
            0 => object["apiVersion"] = "example.com/v0".into(),
            1 => object["metadata"]["managedFields"] = json!([]),
            _ => {}
        }
        let force = self.rng.random_ratio(2, 5);
        let subresource = self.subresource();
        let reset = self.reset(subresource);
        let now = self.tick();
        let writer = Writer { manager, api_version: API_VERSION, subresource, now };
        let fields = FieldSet::from_fields_v1(&reset).unwrap();
        let result = apply(&self.versions(), self.live.as_ref(), &object, &writer, force, &fields);
        self.request(json!({
            "op": "apply", "manager": manager, "force": force, "subresource": subresource, "object": object,
            "resetFields": reset, "now": now,
        }));
        let result = result.map(|applied| (applied.object, json!(applied.managed_fields)));
        if let Ok((applied, managed_fields)) = &result {
            self.configurations.insert(manager.to_owned(), object);
            self.store(applied.clone(), managed_fields.clone());
        }
        self.answer(result.map(|(object, managed_fields)| (Some(object), managed_fields)));
    }

    /// Writes roughly what `kubectl apply` without `--server-side` writes.
    fn apply_on_the_client(&mut self) {
        let mut configuration = self.configuration("kubectl");
        configuration["metadata"] = json!({"name": "thing"});
        let mut new = self.live.clone().unwrap();
        for part in ["spec", "status"] {
            if let Some(value) = configuration.get(part) {
                new[part] = value.clone();
            }
        }
        new["metadata"]["annotations"] = json!({LAST_APPLIED: configuration.to_string()});
        self.configurations.insert("kubectl".to_owned(), configuration);
        self.track(CLIENT_SIDE, new);
    }

    fn update(&mut self) {
        let manager = if self.crowd {
            format!("u{}", self.step % 20)
        } else {
            (*MANAGERS.choose(&mut self.rng).unwrap()).to_owned()
        };
        let mut new = match self.live.clone() {
            Some(live) if self.rng.random_ratio(19, 20) => self.variation(&live),
            Some(live) => {
                let document = self.document();
                let metadata = live["metadata"].as_object().cloned().unwrap_or_default();
                self.finish(document, metadata)
            }
            None => self.document(),
        };
        if self.crowd {
            // Something that nobody takes away, so that there are many owners.
            new["metadata"]["annotations"][format!("k{}", self.step)] = "x".into();
        }
        let metadata = new["metadata"].as_object_mut().unwrap();
        match self.rng.random_range(0..if self.crowd { 400 } else { 40 }) {
            0..8 => {
                metadata.remove("managedFields");
            }
            8 => {
                metadata.insert("managedFields".to_owned(), json!([]));
            }
            9 => {
                metadata.insert("managedFields".to_owned(), json!([{}]));
            }
            10 => {
                let bad = json!([{"manager": "x", "operation": "Delete", "apiVersion": API_VERSION}]);
                metadata.insert("managedFields".to_owned(), bad);
            }
            11 => {
                if let Some(Value::Array(entries)) = metadata.get_mut("managedFields") {
                    entries.pop();
                }
            }
            _ => {}
        }
        self.track(&manager, new);
    }

    fn track(&mut self, manager: &str, new: Value) {
        let subresource = self.subresource();
        let reset = self.reset(subresource);
        let now = self.tick();
        let writer = Writer { manager, api_version: API_VERSION, subresource, now };
        let fields = FieldSet::from_fields_v1(&reset).unwrap();
        let result = track(&self.versions(), self.live.as_ref(), &new, &writer, &fields);
        self.request(json!({
            "op": "update", "manager": manager, "subresource": subresource, "object": new,
            "resetFields": reset,
            "now": now,
        }));
        let result = result.map(|entries| json!(entries));
        if let Ok(managed_fields) = &result {
            self.store(new, managed_fields.clone());
        }
        self.answer(result.map(|managed_fields| (None, managed_fields)));
    }

    fn versions(&self) -> OneVersion<'_> {
        OneVersion { api_version: API_VERSION, schema: &self.schema }
    }

    fn tick(&mut self) -> Timestamp {
        self.step += 1;
        let start: Timestamp = "2020-01-01T00:00:00Z".parse().unwrap();
        start + (self.step * 7).minutes()
    }

    fn request(&mut self, mut operation: Value) {
        if let Some(live) = &self.live {
            operation["live"] = live.clone();
        } else {
            operation["live"] = json!({"apiVersion": API_VERSION, "kind": "Thing"});
        }
        let operations = self.cases.last_mut().unwrap().request["operations"].as_array_mut().unwrap();
        operations.push(operation);
    }

    fn store(&mut self, mut object: Value, managed_fields: Value) {
        if self.live.is_some() || !self.rng.random_ratio(1, 20) {
            object["metadata"]["uid"] = "1234".into();
        }
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        if managed_fields != json!([]) {
            metadata.insert("managedFields".to_owned(), managed_fields);
        }
        self.live = Some(object);
    }

    fn answer(&mut self, result: Result<(Option<Value>, Value), ApplyError>) {
        let answer = match result {
            Ok((object, managed_fields)) => {
                let sets = managed_fields.as_array().into_iter().flatten();
                let sets = sets.map(|entry| FieldSet::from_fields_v1(&entry["fieldsV1"]).unwrap());
                let fields = sets.map(|set| set.to_fields_v1_text()).collect();
                Answer::Written { object, managed_fields, fields }
            }
            Err(error @ ApplyError::Conflicts(_)) => {
                let causes = error.causes().into_iter();
                let mut causes: Vec<[String; 2]> =
                    causes.map(|cause| [cause.field, cause.message].map(Option::unwrap_or_default)).collect();
                causes.sort();
                Answer::Conflicts { message: error.to_string(), causes }
            }
            Err(error) => Answer::Failed { code: error.code(), message: error.to_string() },
        };
        self.cases.last_mut().unwrap().answers.push(answer);
    }
}
