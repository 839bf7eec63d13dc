//! The commands of kubectl on the kinds of this project, as one table for two versions of kubectl.
//!
//! The rows that fit every kind are also played with a custom resource, so that kube-apiserver itself says
//! what they must print.

mod apply;
mod create;
mod delete;
mod discover;
mod follow;
mod get;
mod patch;
mod player;
pub(crate) mod row;
mod subject;

pub(crate) use player::Player;
use row::Row;
pub(crate) use subject::Subject;

use crate::workbench::Workbench;

/// Version of kubectl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// 1.37.
    New,
    /// 1.32.
    Old,
}

/// Part of the table whose rows fit every kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Get,
    Create,
    Patch,
    Apply,
    Delete,
    Discover,
}

impl Part {
    fn rows(self) -> &'static [Row] {
        match self {
            Self::Get => get::ROWS,
            Self::Create => create::ROWS,
            Self::Patch => patch::ROWS,
            Self::Apply => apply::ROWS,
            Self::Delete => delete::ROWS,
            Self::Discover => discover::ROWS,
        }
    }
}

/// Objects that a part is played with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// One of a namespace and one of the cluster.
    Small,
    /// One of each of this project's kinds, and a custom resource.
    Full,
}

/// Plays a part of the table.
pub(crate) async fn plays(prefix: &str, version: Version, part: Part, size: Size) {
    let bench = Workbench::new(prefix).await;
    let player = Player::new(&bench, version).await;
    let mut subjects = Subject::all(&bench);
    match size {
        Size::Small => subjects.truncate(2),
        Size::Full => subjects.push(Subject::widget(&bench).await),
    }
    player.introduces_itself(&subjects[0]).await;
    let mut report = String::new();
    for subject in &subjects {
        report += &player.plays(subject, part.rows()).await;
    }
    assert!(report.is_empty(), "{report}");
    bench.close().await;
}

/// Plays the rows of the course of an Evacuation: waits, events, fields of the status, and answers.
pub(crate) async fn follows_an_evacuation(prefix: &str, version: Version) {
    let bench = Workbench::new(prefix).await;
    bench.pod("web-0", evacuation_e2e::PodSpec::default()).await;
    let player = Player::new(&bench, version).await;
    let report = player.plays(&Subject::of(&bench, "evacuations"), follow::ROWS).await;
    assert!(report.is_empty(), "{report}");
    bench.close().await;
}
