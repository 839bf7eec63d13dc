//! Applies of the status.

use serde_json::json;

use crate::workbench::{Workbench, assert_has, ownership};

#[tokio::test(flavor = "multi_thread")]
async fn the_status_is_applied_by_its_subresource_with_the_right_to_it() {
    let bench = Workbench::new("status").await;
    let guest = bench.user("guest", &["evacuation:requester"]).await.name;
    for configuration in [bench.drain(), bench.rule(), bench.evacuation()] {
        bench.applied(&configuration, &[]).await;
        let before = bench.settled(&configuration).await;
        let mut status = configuration.clone();
        status.object.as_object_mut().unwrap().remove("spec");
        status.object["metadata"].as_object_mut().unwrap().remove("labels");
        // The value that the controller has written: so it has no reason to write another one.
        let generation = &before["metadata"]["generation"];
        status.object["status"] = json!({"observedGeneration": generation});
        let file = bench.file(&status);
        let apply = ["apply", "--server-side", "--subresource=status", "--field-manager=acme", "-f", &file];
        bench.kubectl(&apply).await;
        let stored = bench.read(&configuration).await;
        let entry = ownership(&stored, "acme", "Apply");
        assert_eq!(entry["subresource"], "status", "{stored}");
        assert_eq!(entry["fieldsV1"], json!({"f:status": {"f:observedGeneration": {}}}));
        assert_eq!(stored["spec"], before["spec"]);

        let refused = bench.run_as(&guest, &apply).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert_has(&refused.stderr, &["Forbidden", &format!("\"{}/status\"", configuration.plural)]);
    }
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_controller_is_known_by_its_name() {
    let bench = Workbench::new("names").await;
    for configuration in [bench.drain(), bench.rule()] {
        bench.applied(&configuration, &[]).await;
        let stored = bench.settled(&configuration).await;
        let entry = ownership(&stored, "evacuation-controller", "Update");
        assert_eq!(entry["subresource"], "status", "{stored}");
        assert!(entry["fieldsV1"]["f:status"].get("f:observedGeneration").is_some(), "{stored}");
    }
    bench.close().await;
}
