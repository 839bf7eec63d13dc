//! kubectl 1.37 and the table of its commands.

use crate::matrix::{Part, Size, Version, follows_an_evacuation, plays};

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
