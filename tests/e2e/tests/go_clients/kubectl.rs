//! The whole table of kubectl's commands, by kubectl 1.37 and 1.32.

use crate::matrix::{Part, Size, Version, follows_an_evacuation, plays};

/// Plays a part by both versions, one after the other.
async fn plays_by_both(prefix: &str, part: Part) {
    for version in [Version::New, Version::Old] {
        plays(prefix, version, part, Size::Full).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn get_and_describe_print_what_is_there() {
    plays_by_both("kubectlget", Part::Get).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn create_and_replace_store_a_file() {
    plays_by_both("kubectlcreate", Part::Create).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn patch_label_annotate_and_edit_change_what_they_name() {
    plays_by_both("kubectlpatch", Part::Patch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_and_diff_of_both_sides_agree() {
    plays_by_both("kubectlapply", Part::Apply).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_removes_with_every_cascade() {
    plays_by_both("kubectldelete", Part::Delete).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_api_resources_and_can_i_know_the_kinds() {
    plays_by_both("kubectldiscover", Part::Discover).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_and_events_of_1_32_follow_an_evacuation() {
    follows_an_evacuation("kubectlfollow", Version::Old).await;
}
