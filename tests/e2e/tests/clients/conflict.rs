//! Conflicts of field managers, and the rights of an apply.

use serde_json::{Value, json};

use crate::workbench::{Workbench, assert_has, managers, ownership};

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_names_the_field_and_force_conflicts_takes_it() {
    let bench = Workbench::new("conflict").await;
    for configuration in bench.configurations() {
        bench.applied(&configuration, &["--field-manager=acme"]).await;
        let before = bench.settled(&configuration).await;
        let file = bench.file(&configuration.changed());
        let error = bench.fails(&["apply", "--server-side", "-f", &file]).await;
        let first = format!(
            "error: Apply failed with 1 conflict: conflict with \"acme\": {}\n\
             Please review the fields above--they currently have other managers. Here\n\
             are the ways you can resolve this warning:\n",
            configuration.path
        );
        assert!(error.starts_with(&first), "{first}\n{error}");
        assert_has(&error, &["`--force-conflicts`"]);
        assert_eq!(bench.read(&configuration).await, before, "a conflict changes nothing");

        bench.applied(&configuration.changed(), &["--force-conflicts"]).await;
        let taken = bench.settled(&configuration).await;
        assert_eq!(configuration.value(&taken), configuration.other);
        assert_eq!(managers(&taken), ["acme Apply", "kubectl Apply"]);
        let field = format!("f:{}", configuration.field.rsplit_once('/').unwrap().1);
        let owns =
            |manager: &str| ownership(&taken, manager, "Apply")["fieldsV1"].to_string().contains(&field);
        assert!(owns("kubectl") && !owns("acme"), "{taken}");

        // The former owner gives the field up: then it is no longer in conflict.
        bench.applied(&configuration.shortened(), &["--field-manager=acme"]).await;
        assert_eq!(configuration.value(&bench.read(&configuration).await), configuration.other);
    }
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn managers_that_agree_share_a_field_until_both_leave_it() {
    let bench = Workbench::new("shared").await;
    for configuration in bench.configurations() {
        bench.applied(&configuration, &["--field-manager=acme"]).await;
        bench.applied(&configuration, &[]).await;
        bench.applied(&configuration.shortened(), &["--field-manager=acme"]).await;
        let kept = bench.settled(&configuration).await;
        assert_eq!(configuration.value(&kept), configuration.value(&configuration.object), "kubectl owns it");
        bench.applied(&configuration.shortened(), &[]).await;
        assert_eq!(configuration.value(&bench.settled(&configuration).await), configuration.default);
    }
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_patch_but_not_create_applies_only_to_what_exists() {
    let bench = Workbench::new("patcher").await;
    let user = bench.user("patcher", &[]).await.name;
    for verb in ["patch", "get"] {
        let plurals = ["evacuationresponders", "evacuations"];
        for plural in plurals {
            let rule = json!({"apiGroups": ["evacuation.dev"], "resources": [plural], "verbs": [verb]});
            // A grant is known when its first verb is.
            bench.grant(&user, rule).await;
        }
    }
    for configuration in [bench.responder(), bench.evacuation()] {
        let file = bench.file(&configuration);
        let apply = ["apply", "--server-side", "-f", &file];
        let refused = bench.run_as(&user, &apply).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        let (plural, name) = (configuration.plural, configuration.name());
        assert_has(
            &refused.stderr,
            &[
                &format!("Error from server (Forbidden): {plural}.evacuation.dev \"{name}\" is forbidden"),
                &format!("User \"{user}\" cannot create resource \"{plural}\""),
            ],
        );
        assert_eq!(bench.find(&configuration).await, None);
    }
    let configuration = bench.responder();
    bench.applied(&configuration, &["--field-manager=acme"]).await;
    let mut more = configuration.clone();
    more.object["spec"]["timeoutSeconds"] = json!(90);
    let file = bench.file(&more);
    let output = bench.run_as(&user, &["apply", "--server-side", "--field-manager=guest", "-f", &file]).await;
    assert!(output.success(), "{output:?}");
    let stored = bench.read(&configuration).await;
    assert_eq!(stored["spec"]["timeoutSeconds"], 90);
    assert_ne!(*ownership(&stored, "guest", "Apply"), Value::Null);
    bench.close().await;
}
