//! The command line of `kubectl evacuate`.

use clap::{CommandFactory, Parser, Subcommand};

use crate::{
    Exit,
    answer::Answer,
    cancel::Cancel,
    check::Check,
    clean::Clean,
    completion::{Complete, Completion},
    lint::Lint,
    node::Node,
    overriding::Override,
    pause::{Pause, Resume},
    rehearsal::Test,
    set::Set,
    status::Status,
    why::Why,
};

/// Drain by asking: each pod is asked to move and answers. And check manifests and the installation.
#[derive(Parser)]
#[command(name = "kubectl evacuate", bin_name = "kubectl evacuate", version)]
pub struct Evacuate {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Node(Box<Node>),
    Status(Status),
    Set(Set),
    Pause(Pause),
    Resume(Resume),
    Cancel(Cancel),
    Clean(Clean),
    Why(Why),
    Override(Override),
    Answer(Answer),
    Test(Test),
    Check(Check),
    Lint(Lint),
    Completion(Completion),
    #[command(name = "__complete", hide = true)]
    Complete(Complete),
}

impl Evacuate {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// As the subcommand.
    pub async fn run(self) -> anyhow::Result<Exit> {
        match self.task {
            Task::Node(node) => node.run().await,
            Task::Status(status) => status.run().await,
            Task::Set(set) => set.run().await,
            Task::Pause(pause) => pause.run().await,
            Task::Resume(resume) => resume.run().await,
            Task::Cancel(cancel) => cancel.run().await,
            Task::Clean(clean) => clean.run().await,
            Task::Why(why) => why.run().await,
            Task::Override(overriding) => overriding.run().await,
            Task::Answer(answer) => answer.run().await,
            Task::Test(test) => test.run().await,
            Task::Check(check) => check.run().await,
            Task::Lint(lint) => lint.run(),
            Task::Completion(completion) => completion.run(),
            Task::Complete(complete) => complete.run(Self::command()).await,
        }
    }
}
