//! The kinds of the kitchen. A pot stands on a stove and no two pots on one; a stove is cluster-scoped and
//! plain.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use chrono::DateTime;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery_server::{
    Action, ApiError, ClaimConflict, Column, DeleteContext, KindInfo, Reason, Registry, Removable,
    RequestContext, ScalePaths, Strategy, View,
};
use machinery_validation::{FieldError, FieldPath};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

macro_rules! kind {
    ($type:ident, $kind:literal, $plural:literal, $scope:ident) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = kube::core::$scope;

            fn kind(&(): &()) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn group(&(): &()) -> std::borrow::Cow<'_, str> {
                "kitchen.dev".into()
            }

            fn version(&(): &()) -> std::borrow::Cow<'_, str> {
                "v1".into()
            }

            fn plural(&(): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

/// A pot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pot {
    #[serde(default = "v1")]
    pub(crate) api_version: String,
    #[serde(default = "pot")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: PotSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<PotStatus>,
}

kind!(Pot, "Pot", "pots", NamespaceResourceScope);

/// Content of a pot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PotSpec {
    pub(crate) dish: String,
    /// The stove that it stands on; no other pot can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stove: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) servings: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[schemars(extend("x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub(crate) steps: Vec<Step>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub(crate) tags: Vec<String>,
}

/// A step of the recipe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Step {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) minutes: Option<i64>,
}

/// State of a pot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PotStatus {
    #[serde(default)]
    pub(crate) done: bool,
    #[serde(default)]
    pub(crate) stirred: i64,
}

fn v1() -> String {
    "kitchen.dev/v1".to_owned()
}

fn pot() -> String {
    "Pot".to_owned()
}

/// The dish whose rows of tables are counted in [`COUNTED_CELLS`].
pub(crate) const COUNTED: &str = "counted";
pub(crate) static COUNTED_CELLS: AtomicUsize = AtomicUsize::new(0);

/// The rules of pots: two servings by default, no empty dish, a dish never changes, a stove holds one pot
/// that is not done, `burnt` panics, `chef` may use the reserve, a pot that is done and was stirred gives
/// way, a pot with the label `locked` is not deleted but in a terminating namespace.
pub(crate) struct PotStrategy;

#[async_trait]
impl Strategy for PotStrategy {
    type Object = Pot;

    fn info(&self) -> KindInfo {
        KindInfo { namespaced: true, singular: "pot", short_names: &["pt"], categories: &["all"] }
    }

    fn scale(&self, _: &str) -> Option<ScalePaths> {
        Some(ScalePaths { spec_replicas: "spec.servings", status_replicas: "status.stirred", selector: None })
    }

    fn default(&self, _: &RequestContext, object: &mut Pot) {
        object.spec.servings.get_or_insert(2);
    }

    fn prepare_for_create(&self, _: &RequestContext, object: &mut Pot) {
        object.status = None;
    }

    fn validate(&self, context: &RequestContext, object: &Pot) -> Vec<FieldError> {
        assert!(object.spec.dish != "burnt", "the kitchen is on fire");
        if object.spec.dish == "fugu" {
            context.warnings.add("fugu is dangerous");
        }
        let spec = FieldPath::new("spec");
        let mut errors = Vec::new();
        if object.spec.dish.is_empty() {
            errors.push(FieldError::required(&spec.child("dish"), "a pot has a dish"));
        }
        if object.spec.servings.is_some_and(|servings| servings < 1) {
            errors.push(FieldError::invalid(&spec.child("servings"), "0", "must be positive"));
        }
        errors
    }

    async fn admit_create(&self, context: &RequestContext, object: &mut Pot) -> Result<(), ApiError> {
        object.spec.owner.get_or_insert_with(|| context.user.name.clone());
        Ok(())
    }

    fn prepare_for_update(&self, _: &RequestContext, object: &mut Pot, old: &Pot) -> Result<(), ApiError> {
        object.status.clone_from(&old.status);
        Ok(())
    }

    fn validate_update(&self, context: &RequestContext, object: &Pot, old: &Pot) -> Vec<FieldError> {
        let mut errors = self.validate(context, object);
        if object.spec.dish != old.spec.dish {
            let field = FieldPath::new("spec").child("dish");
            errors.push(FieldError::invalid(&field, &object.spec.dish, "field is immutable"));
        }
        errors
    }

    fn prepare_for_status_update(
        &self,
        _: &RequestContext,
        object: &mut Pot,
        old: &Pot,
    ) -> Result<(), ApiError> {
        object.spec = old.spec.clone();
        Ok(())
    }

    async fn prepare_for_delete(
        &self,
        _: &RequestContext,
        delete: DeleteContext,
        object: &mut Pot,
    ) -> Result<(), ApiError> {
        let locked = object.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("locked"));
        if locked && !delete.namespace_terminating {
            return Err(
                ApiError::status(Reason::Forbidden, "the pot is locked").with_cause("Locked", "by its label")
            );
        }
        Ok(())
    }

    async fn may_use_reserve(
        &self,
        context: &RequestContext,
        _: &Pot,
        _: Option<&Pot>,
    ) -> Result<bool, ApiError> {
        Ok(context.user.name == "chef")
    }

    /// Of an owner's pots, one that was stirred less gives way first.
    fn removable(&self, object: &Pot) -> Option<Removable> {
        let status = object.status.as_ref().filter(|status| status.done && status.stirred > 0)?;
        let flow = object.spec.owner.clone().unwrap_or_default();
        let of_use_until = DateTime::from_timestamp(status.stirred, 0)?;
        Some(Removable { flow, from: DateTime::UNIX_EPOCH, of_use_until })
    }

    fn claims(&self, object: &Pot) -> Vec<String> {
        let done = object.status.as_ref().is_some_and(|status| status.done)
            || object.metadata.deletion_timestamp.is_some();
        object.spec.stove.iter().filter(|_| !done).map(|stove| format!("stove-{stove}")).collect()
    }

    fn claim_conflict(&self, object: &Pot, conflict: &ClaimConflict) -> ApiError {
        let stove = object.spec.stove.clone().unwrap_or_default();
        let state = if conflict.is_holder_unreadable { ", which cannot be read" } else { "" };
        let message = format!("stove {stove} is taken by {}{state}", conflict.holder_name);
        ApiError::status(Reason::AlreadyExists, message)
            .with_cause("StoveTaken", conflict.holder_name.clone())
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.dish", "spec.owner"]
    }

    fn field(&self, object: &Pot, field: &str) -> String {
        match field {
            "spec.dish" => object.spec.dish.clone(),
            "spec.owner" => object.spec.owner.clone().unwrap_or_default(),
            _ => String::new(),
        }
    }

    fn columns(&self) -> &'static [Column] {
        &[
            Column {
                name: "Dish",
                column_type: "string",
                format: "",
                description: "What is cooked.",
                priority: 0,
            },
            Column { name: "Stove", column_type: "string", format: "", description: "Where.", priority: 1 },
        ]
    }

    fn cells(&self, object: &Pot) -> Vec<Value> {
        if object.spec.dish == COUNTED {
            COUNTED_CELLS.fetch_add(1, Ordering::Relaxed);
        }
        vec![json!(object.spec.dish), json!(object.spec.stove)]
    }
}

/// A stove.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stove {
    #[serde(default = "v1")]
    pub(crate) api_version: String,
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
}

kind!(Stove, "Stove", "stoves", ClusterResourceScope);

pub(crate) struct StoveStrategy;

impl Strategy for StoveStrategy {
    type Object = Stove;

    fn info(&self) -> KindInfo {
        KindInfo { namespaced: false, singular: "stove", short_names: &[], categories: &[] }
    }

    fn verbs(&self) -> &'static [machinery_server::Verb] {
        use machinery_server::Verb::{Create, Get, List, Watch};
        &[Create, Get, List, Watch]
    }

    fn has_status(&self) -> bool {
        false
    }

    fn prepare_for_create(&self, _: &RequestContext, _: &mut Stove) {}

    fn stand_in(&self, _: &str, _: &str) -> Option<Stove> {
        let labels = Some([("hot".to_owned(), "perhaps".to_owned())].into());
        let metadata = ObjectMeta { labels, ..ObjectMeta::default() };
        Some(Stove { api_version: v1(), kind: "Stove".to_owned(), metadata })
    }

    fn validate(&self, _: &RequestContext, _: &Stove) -> Vec<FieldError> {
        Vec::new()
    }

    fn prepare_for_update(&self, _: &RequestContext, _: &mut Stove, _: &Stove) -> Result<(), ApiError> {
        Ok(())
    }

    fn validate_update(&self, _: &RequestContext, _: &Stove, _: &Stove) -> Vec<FieldError> {
        Vec::new()
    }
}

/// A pot of the caller's own, without the stove.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnPot {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) metadata: ObjectMeta,
    pub(crate) dish: String,
}

kind!(OwnPot, "OwnPot", "ownpots", NamespaceResourceScope);

/// Shows each cook its own pots, and `local` those of the namespace `n` only. `inspector` has no view.
pub(crate) struct OwnPots;

impl View for OwnPots {
    type Source = PotStrategy;
    type Object = OwnPot;

    fn info(&self) -> KindInfo {
        KindInfo { namespaced: true, singular: "ownpot", short_names: &[], categories: &[] }
    }

    fn admit(&self, context: &RequestContext) -> Result<(), ApiError> {
        if context.user.name == "inspector" {
            return Err(ApiError::status(Reason::Forbidden, "inspectors have no pots"));
        }
        Ok(())
    }

    fn every_caller_may_list(&self) -> bool {
        false
    }

    fn field(&self, context: &RequestContext) -> Option<(&'static str, String)> {
        Some(("spec.owner", context.user.name.clone()))
    }

    fn namespace(&self, context: &RequestContext) -> Option<String> {
        (context.user.name == "local").then(|| "n".to_owned())
    }

    fn project(&self, context: &RequestContext, source: &Pot) -> Option<OwnPot> {
        (source.spec.owner.as_deref() == Some(context.user.name.as_str())).then(|| OwnPot {
            api_version: v1(),
            kind: "OwnPot".to_owned(),
            metadata: source.metadata.clone(),
            dish: source.spec.dish.clone(),
        })
    }
}

/// Says how often to stir, and in the answer how often was stirred.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stirring {
    #[serde(default = "v1")]
    pub(crate) api_version: String,
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    pub(crate) times: i64,
}

kind!(Stirring, "Stirring", "stirrings", NamespaceResourceScope);

/// `POST pots/NAME/stir`.
pub(crate) struct Stir(pub(crate) Arc<Registry<PotStrategy>>);

#[async_trait]
impl Action for Stir {
    type Body = Stirring;

    fn name(&self) -> &'static str {
        "stir"
    }

    async fn post(&self, context: &RequestContext, name: &str, body: Stirring) -> Result<Stirring, ApiError> {
        let change = |pot: &mut Pot| {
            pot.status.get_or_insert_default().stirred += body.times;
            Ok(())
        };
        let pot = self.0.mutate(context, &context.namespace, name, change).await?;
        Ok(Stirring { times: pot.status.map(|status| status.stirred).unwrap_or_default(), ..body })
    }
}
