//! Large objects of one tenant.

use evacuation_api::EvacuationResponder;
use evacuation_e2e::scene::Bystander;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use crate::tenant::{delayed, scene, tenant};

/// Size of each object in bytes, just below the limit of an object's annotations.
const SIZE: usize = 250_000;
/// The number of objects after which the server has no limit worth the name.
const ENOUGH: usize = 3_000;

/// A namespace has a limit in bytes.
///
/// # Attack
///
/// - Attacker: a tenant with the role `edit`
/// - Act: stores the largest objects that validation allows, until it is stopped
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn the_large_objects_of_a_tenant_are_refused_before_they_hurt_and_do_not_keep_the_server_from_starting()
{
    let scene = scene("objects").await;
    let (beside, tenant, ()) = tokio::join!(Bystander::new(&scene), tenant(&scene), delayed(&scene));
    let api: Api<EvacuationResponder> = Api::namespaced(tenant.client.clone(), scene.namespace());
    let padding = "x".repeat(SIZE);
    let mut refusal = None;
    for number in 0..ENOUGH {
        let object = json!({
            "metadata": {"name": format!("r-{number}"), "annotations": {"padding": padding}},
            "spec": {"name": "tenant.acme.io/padding", "selector": {}},
        });
        let object = serde_json::from_value(object).unwrap();
        match api.create(&PostParams::default(), &object).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) => {
                refusal = Some(status);
                break;
            }
            Err(other) => panic!("{other}"),
        }
    }
    let refusal = refusal.expect("the server has a limit");
    assert_eq!(refusal.code, 403, "{refusal:?}");

    let server = scene.platform().apiserver();
    server.kill().unwrap();
    server.start().unwrap();
    scene.platform().available().await.unwrap();
    beside.drains(&scene).await;
    scene.left_alone("delayed");
    // The tenant can always make room.
    api.delete("r-0", &DeleteParams::default()).await.unwrap();
}
