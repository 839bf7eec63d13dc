use bytes::Bytes;
use serde_json::json;

use crate::support::Kitchen;

#[tokio::test]
async fn what_is_served_can_be_discovered() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let groups = client.get("/apis").await.expect(200);
    assert_eq!(
        (&groups["kind"], &groups["groups"][0]["name"]),
        (&json!("APIGroupList"), &json!("kitchen.dev"))
    );
    let resources = client.get("/apis/kitchen.dev/v1").await.expect(200);
    let names: Vec<&str> = resources["resources"]
        .as_array()
        .expect("resources")
        .iter()
        .filter_map(|r| r["name"].as_str())
        .collect();
    for name in ["ownpots", "ownpots/stir", "pots", "pots/scale", "pots/status", "pots/stir", "stoves"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert!(!names.contains(&"stoves/status"));
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    assert_eq!(client.get_as("/apis", aggregated).await.expect(200)["kind"], "APIGroupDiscoveryList");
}

#[tokio::test]
async fn documents_are_not_sent_again_to_clients_that_have_them() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    for path in ["/openapi/v2", "/openapi/v3", "/openapi/v3/apis/kitchen.dev/v1", "/apis"] {
        let first = client.get(path).await;
        first.expect(200);
        let etag = first.header("etag").to_owned();
        assert!(etag.starts_with('"'), "{path}");
        let again = client.send("GET", path, &[("if-none-match", &etag)], Bytes::new()).await;
        assert_eq!((again.code, again.body.len()), (304, 0), "{path}");
    }
}

#[tokio::test]
async fn an_openapi_document_named_by_its_hash_never_changes() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let index = client.get("/openapi/v3").await.expect(200);
    let url = index["paths"]["apis/kitchen.dev/v1"]["serverRelativeURL"].as_str().expect("a URL").to_owned();
    let found = client.get(&url).await;
    found.expect(200);
    assert_eq!(found.header("cache-control"), "public, immutable");
    assert_eq!(found.header("vary"), "Accept");
    assert!(found.header("expires").ends_with(" GMT"), "{}", found.header("expires"));

    // The client follows the redirect.
    let old = client.get("/openapi/v3/apis/kitchen.dev/v1?hash=OLD").await;
    assert_eq!((old.code, &old.body), (200, &found.body));
    assert_eq!(old.url, format!("{}{url}", kitchen.url()));
    let plain = client.get("/openapi/v3/apis/kitchen.dev/v1").await;
    assert_eq!(plain.header("cache-control"), "no-cache, private");
    assert_eq!(plain.header("etag"), found.header("etag"));
}

#[tokio::test]
async fn discovery_has_the_hash_of_what_is_stored_and_no_list_that_most_may_not_make() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let resources = client.get("/apis/kitchen.dev/v1").await.expect(200);
    let find = |name: &str| {
        let all = resources["resources"].as_array().expect("resources");
        all.iter().find(|resource| resource["name"] == name).expect("a resource").clone()
    };
    assert_eq!(find("pots")["storageVersionHash"].as_str().map(str::len), Some(12));
    assert!(find("ownpots").get("storageVersionHash").is_none());
    assert_eq!(find("ownpots")["verbs"], json!(["get", "watch"]));
    client.get("/apis/kitchen.dev/v1/ownpots").await.expect(200);
    let status = client.get("/readyz?verbose&exclude=ping&exclude=storage").await.text();
    assert!(!status.contains("ping") && !status.contains("storage"), "{status}");
}

#[tokio::test]
async fn version_and_paths_are_told() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    assert!(client.get("/version").await.expect(200)["gitVersion"].as_str().expect("text").starts_with('v'));
    let paths = client.get("/").await.expect(200);
    assert!(paths["paths"].as_array().expect("paths").contains(&json!("/readyz")));
}

#[tokio::test]
async fn requests_watches_and_the_store_are_measured() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    client.get("/apis/kitchen.dev/v1/namespaces/n/pots").await.expect(200);
    client.get("/apis/kitchen.dev/v1/namespaces/n/made-up").await.refused(404, "NotFound");
    for (method, path) in [
        ("MADE-UP", "/apis/kitchen.dev/v1/namespaces/n/pots/a"),
        ("GET", "/apis/kitchen.dev/v1/namespaces/n/pots/a/made-up"),
        ("MADE-UP", "/readyz"),
        ("MADE-UP", "/made-up"),
    ] {
        client.send(method, path, &[], Bytes::new()).await;
        kitchen.client_of("thief").send(method, path, &[], Bytes::new()).await;
    }
    let metrics = client.get("/metrics").await.text();
    let create = r#"apiserver_request_total{verb="POST",dry_run="",group="kitchen.dev",version="v1",resource="pots",subresource="",scope="resource",component="apiserver",code="201"} 1"#;
    for expected in [
        create,
        "apiserver_request_duration_seconds_bucket",
        r#"apiserver_resource_objects{group="kitchen.dev",resource="pots"} 1"#,
        r#"etcd_request_duration_seconds_count{operation="create",group="kitchen.dev",resource="pots"}"#,
        r#"apiserver_current_inflight_requests{request_kind="readOnly"} 1"#,
    ] {
        assert!(metrics.contains(expected), "{expected} is not in\n{metrics}");
    }
    assert!(!metrics.to_lowercase().contains("made-up"), "names that callers made up are no labels");
}
