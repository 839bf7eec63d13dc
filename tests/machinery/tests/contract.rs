//! The contract: every test runs on every store.

// Clippy takes the functions that tests are made of for production code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "contract/commits.rs"]
mod commits;
#[path = "contract/fixture.rs"]
mod fixture;
#[path = "contract/history.rs"]
mod history;
#[path = "contract/reads.rs"]
mod reads;
#[path = "contract/watches.rs"]
mod watches;

/// Runs each test, a function of a store, on both.
macro_rules! contract {
    ($($module:ident :: $test:ident),* $(,)?) => {
        mod etcd {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    let etcd = controlplane::Etcd::start().await.unwrap();
                    crate::$module::$test(crate::fixture::on_etcd(&etcd).await).await;
                }
            )*
        }

        mod embedded {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    let folder = tempfile::tempdir().unwrap();
                    crate::$module::$test(crate::fixture::in_folder(folder.path()).await).await;
                }
            )*
        }
    };
}

contract![
    commits::a_value_is_read_back_with_its_revisions,
    commits::a_failed_precondition_changes_nothing_and_shows_what_is_there,
    commits::a_key_that_was_deleted_is_absent_and_starts_anew,
    commits::an_absent_key_is_never_unchanged,
    commits::deleting_nothing_is_no_commit,
    commits::of_several_operations_on_a_key_the_last_counts,
    commits::one_of_fifty_concurrent_claims_wins,
    commits::concurrent_increments_lose_nothing,
    commits::a_value_of_a_megabyte_is_kept,
    commits::a_value_beyond_the_limit_is_too_large,
    reads::a_missing_key_is_read_with_the_stores_revision,
    reads::the_revisions_of_many_keys_are_read_at_one_revision_in_the_order_of_the_keys,
    reads::a_list_holds_the_prefix_in_order_and_nothing_else,
    reads::pages_show_one_revision_while_writes_go_on,
    reads::a_list_of_the_past_shows_what_was_changed_and_deleted_since,
    reads::ten_thousand_keys_are_listed_whole,
    reads::a_page_may_start_after_a_key_that_is_gone,
    history::a_compacted_revision_cannot_be_read_nor_watched,
    history::what_is_not_compacted_can_be_read_and_watched,
    history::a_revision_of_the_future_is_an_error,
    history::compacting_twice_or_the_future_is_an_error,
    watches::a_watch_reports_each_commit_once_in_order_with_the_previous_value,
    watches::a_watch_from_the_past_reports_what_it_missed_and_goes_on,
    watches::the_operations_of_a_commit_come_together,
    watches::a_watch_sees_its_prefix_only,
    watches::many_watches_see_the_same,
    watches::a_reader_that_lags_loses_nothing,
    watches::a_broken_off_watch_is_resumed_without_loss,
    watches::progress_tells_that_everything_was_seen,
    watches::large_commits_reach_a_watch,
];
