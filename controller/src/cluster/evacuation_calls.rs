//! Requests to the API for Evacuations.

use evacuation_api::{Evacuation, EvacuationResponse};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, PostParams},
};

use super::{CallError, ObjectKey, View, call};

/// The Evacuations of a namespace.
///
/// # Guarantees
///
/// The view keeps projections of Evacuations, and no write of this type stores one: [`edit`](Self::edit)
/// reads the Evacuation whole, and of [`replace_status`](Self::replace_status) the server takes the status
/// alone.
pub(crate) struct EvacuationApi(Api<Evacuation>);

/// Returns the Evacuations of a namespace.
pub(crate) fn evacuations(client: &Client, namespace: &str) -> EvacuationApi {
    EvacuationApi(Api::namespaced(client.clone(), namespace))
}

impl EvacuationApi {
    /// Returns the path of the resource.
    pub(crate) fn path(&self) -> &str {
        self.0.resource_url()
    }

    /// Reads an Evacuation.
    pub(crate) async fn get_opt(&self, name: &str) -> kube::Result<Option<Evacuation>> {
        self.0.get_opt(name).await
    }

    /// Creates an Evacuation.
    pub(crate) async fn create(&self, evacuation: &Evacuation) -> kube::Result<Evacuation> {
        self.0.create(&PostParams::default(), evacuation).await
    }

    /// Deletes an Evacuation if the preconditions hold.
    pub(crate) async fn delete(&self, name: &str, parameters: &DeleteParams) -> kube::Result<()> {
        self.0.delete(name, parameters).await.map(|_| ())
    }

    /// Posts an answer.
    pub(crate) async fn respond(
        &self,
        name: &str,
        answer: &EvacuationResponse,
    ) -> kube::Result<EvacuationResponse> {
        self.0.create_subresource("respond", name, &PostParams::default(), answer).await
    }

    /// Replaces the status of an Evacuation in the state that was decided on.
    pub(crate) async fn replace_status(&self, evacuation: &Evacuation) -> kube::Result<Evacuation> {
        self.0.replace_status(&evacuation.name_any(), &PostParams::default(), evacuation).await
    }

    /// Changes an Evacuation. It is read whole, because `known`, the state that was decided on, can lack what
    /// the view does not keep.
    ///
    /// # Errors
    ///
    /// A 409 when the Evacuation is not in the known state any more, a 404 when it is gone.
    pub(crate) async fn edit(
        &self,
        known: &Evacuation,
        change: impl FnOnce(&mut Evacuation),
    ) -> kube::Result<Evacuation> {
        let name = known.name_any();
        let mut whole = self.0.get(&name).await?;
        change(&mut whole);
        let (metadata, decided_on) = (whole.meta_mut(), known.meta());
        metadata.uid.clone_from(&decided_on.uid);
        metadata.resource_version.clone_from(&decided_on.resource_version);
        self.0.replace(&name, &PostParams::default(), &whole).await
    }

    /// Changes an Evacuation as [`edit`](Self::edit) does, and shows the new state to the view. Returns false
    /// when it is gone. The verb is that of the action in errors.
    ///
    /// # Errors
    ///
    /// A 409 when the Evacuation is not in the known state any more.
    pub(crate) async fn edit_in(
        &self,
        view: &View,
        known: &Evacuation,
        verb: &str,
        change: impl FnOnce(&mut Evacuation),
    ) -> Result<bool, CallError> {
        let action = format!("{verb} evacuation {}", ObjectKey::of(known));
        match call(action, self.edit(known, change)).await {
            Ok(written) => {
                view.apply(written);
                Ok(true)
            }
            Err(error) if error.code() == 404 => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use evacuation_api::Requester;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::{lock, testing::cluster_with_api};

    /// An Evacuation as the API has it: with metadata of which the view keeps nothing.
    fn stored(version: &str) -> Value {
        json!({
            "apiVersion": "evacuation.dev/v1alpha1", "kind": "Evacuation",
            "metadata": {
                "namespace": "ns", "name": "e", "uid": "u", "resourceVersion": version,
                "labels": {"team": "db"}, "annotations": {"acme.io/note": "n"},
                "ownerReferences": (0..20).map(|n| json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": n.to_string(),
                })).collect::<Vec<_>>(),
                "finalizers": (0..20).map(|n| format!("acme.io/{n}")).collect::<Vec<_>>(),
            },
            "spec": {"target": {"pod": {"name": "p", "uid": "p1"}}, "requesters": []},
        })
    }

    #[tokio::test]
    async fn a_change_keeps_what_the_view_does_not_and_is_guarded_by_the_state_that_was_decided_on() {
        let put = Arc::<Mutex<Value>>::default();
        let sent = Arc::clone(&put);
        let (cluster, asked) = cluster_with_api(move |request, body| {
            if request.method == "PUT" {
                lock(&sent).clone_from(&body);
                return (200, body);
            }
            // It has changed since.
            (200, stored("8"))
        });
        cluster.view.apply::<Evacuation>(serde_json::from_value(stored("7")).unwrap());
        let known = cluster.view.index().evacuation(&ObjectKey::new("ns", "e")).unwrap();
        assert_eq!(known.metadata.labels, Some([].into()), "the view keeps a projection");
        let join = |whole: &mut Evacuation| whole.spec.requesters.push(Requester::named("a.b/c"));
        evacuations(&cluster.client, "ns").edit(&known, join).await.unwrap();
        assert_eq!(*lock(&asked), ["GET e", "PUT e"]);
        let mut expected = stored("7");
        expected["spec"]["requesters"] = json!([{"name": "a.b/c"}]);
        assert_eq!(*lock(&put), expected);
    }
}
