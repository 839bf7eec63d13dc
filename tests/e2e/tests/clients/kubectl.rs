//! kubectl 1.37 and the table of its commands.

use crate::{
    matrix::{
        Part, Player, Size, Subject, Version, follows_an_evacuation, plays,
        row::{fails, follows, ok},
    },
    workbench::Workbench,
};

#[tokio::test(flavor = "multi_thread")]
async fn get_and_describe_print_what_is_there() {
    plays("kubectlget", Version::New, Part::Get, Size::Small).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn create_and_replace_store_a_file() {
    plays("kubectlcreate", Version::New, Part::Create, Size::Small).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn patch_label_annotate_and_edit_change_what_they_name() {
    plays("kubectlpatch", Version::New, Part::Patch, Size::Small).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_and_diff_of_both_sides_agree() {
    plays("kubectlapply", Version::New, Part::Apply, Size::Small).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_removes_with_every_cascade() {
    plays("kubectldelete", Version::New, Part::Delete, Size::Small).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_api_resources_and_can_i_know_the_kinds() {
    plays("kubectldiscover", Version::New, Part::Discover, Size::Small).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_and_events_follow_an_evacuation() {
    follows_an_evacuation("kubectlfollow", Version::New).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_with_another_outcome_is_reported() {
    let bench = Workbench::new("kubectltable").await;
    let player = Player::new(&bench, Version::New).await;
    let subject = Subject::of(&bench, "evacuations");
    let right = [
        ok("echo $KIND", &["$KIND\n"]).lacks(&["evacuation"]),
        fails("echo no >&2; false", &["no"]),
        fails("echo $NAME", &["$NAME"]).only(&["widgets"]),
        follows("tail -f $FOLDER/log", "echo two >> $FOLDER/log", &["one", "two"]),
    ];
    std::fs::write(bench.folder().join("log"), "one\n").unwrap();
    assert_eq!(player.plays(&subject, &right).await, "");
    let wrong = [
        ok("echo $KIND", &["evacuation"]),
        ok("echo $KIND", &[]).lacks(&["$KIND"]),
        ok("false", &[]),
        fails("true", &[]),
    ];
    for row in wrong {
        let report = player.plays(&subject, &[row]).await;
        assert!(report.starts_with("evacuations with New$ "), "{row:?}: {report}");
    }
    bench.close().await;
}
