//! The work: at most one run at a time, shared by all callers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{action::Action, bounds::Bounds, context::Context, owner::Owner, verdict::Verdict};

/// The app's work before it may go.
///
/// # Guarantees
///
/// At most one run of the action is under way; callers in that time wait for the same run. Accepted work is
/// not run again, unless its evacuation is canceled or another evacuation asks: then the first one ended
/// unnoticed, without the pod having gone. The action of a cancellation runs after the run that it stopped,
/// and before any later one.
///
/// A rehearsal is answered by the work that was done or is under way for others, and never becomes its owner.
/// Work that was only rehearsed counts for nobody else: it is stopped, undone, and done anew.
#[derive(Clone)]
pub(crate) struct Work(Arc<Inner>);

struct Inner {
    action: Action,
    on_cancel: Option<Action>,
    bounds: Bounds,
    state: Mutex<State>,
    /// Held by the action that runs. Waiters get it in their order.
    turn: tokio::sync::Mutex<()>,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    Running {
        owner: Owner,
        stop: CancellationToken,
        verdict: watch::Receiver<Option<Verdict>>,
    },
    Accepted {
        owner: Owner,
        message: String,
    },
}

impl Work {
    pub(crate) fn new(action: Action, on_cancel: Option<Action>, bounds: Bounds) -> Self {
        Self(Arc::new(Inner {
            action,
            on_cancel,
            bounds,
            state: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            shutdown: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Waits for the verdict of the run under way, or of a new one. The run continues when the future is
    /// dropped.
    ///
    /// A new run gets the `context` of the moment when it starts, which can be after the end of another run.
    pub(crate) async fn verdict(
        &self,
        owner: Owner,
        context: impl FnOnce() -> Context + Send + 'static,
    ) -> Verdict {
        if let Some(earlier) = self.supersede(&owner) {
            tracing::info!("undoing the work that was done for {earlier:?}, which another asker ends");
            self.undo(&Context::ended(&earlier)).await;
        }
        let mut verdict = match self.join(owner, context) {
            Ok(verdict) => return verdict,
            Err(running) => running,
        };
        let known = verdict.wait_for(Option::is_some).await;
        let known = known.ok().and_then(|verdict| verdict.clone());
        known.unwrap_or_else(|| Verdict::Failure { message: "the run was lost".to_owned() })
    }

    /// Stops the work for that evacuation, and undoes it. Nothing happens when another evacuation or a
    /// preStop hook has taken the work over.
    pub(crate) async fn cancel(&self, context: Context) {
        {
            let mut state = self.state();
            match &*state {
                State::Running { owner, .. } | State::Accepted { owner, .. }
                    if owner.uid() != context.uid() =>
                {
                    tracing::info!("the work continues: another evacuation or a preStop hook waits for it");
                    return;
                }
                State::Running { stop, .. } => stop.cancel(),
                State::Idle | State::Accepted { .. } => {}
            }
            *state = State::Idle;
        }
        self.undo(&context).await;
    }

    /// Returns the earlier owner, when another one asks for what was accepted or rehearsed. The work then
    /// counts as not done.
    fn supersede(&self, asker: &Owner) -> Option<Owner> {
        let mut state = self.state();
        let earlier = match &*state {
            State::Accepted { owner, .. } => owner,
            State::Running { owner, stop, .. } if owner.rehearses() && owner.is_superseded_by(asker) => {
                stop.cancel();
                owner
            }
            State::Running { .. } | State::Idle => return None,
        };
        if !earlier.is_superseded_by(asker) {
            return None;
        }
        let earlier = earlier.clone();
        *state = State::Idle;
        Some(earlier)
    }

    async fn undo(&self, context: &Context) {
        let _turn = self.0.turn.lock().await;
        let Some(action) = &self.0.on_cancel else { return };
        match action.run(context, self.0.bounds, &self.0.shutdown).await {
            Verdict::Accept { .. } => tracing::info!("the action of the cancellation ended: done"),
            verdict => tracing::warn!("the action of the cancellation ended: {verdict}"),
        }
    }

    /// Stops the run under way, and waits for its end.
    pub(crate) async fn shut_down(&self) {
        self.0.shutdown.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
        // The action of a cancellation can still run.
        let _turn = self.0.turn.lock().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the verdict if it is known, else its receiver.
    fn join(
        &self,
        asker: Owner,
        context: impl FnOnce() -> Context + Send + 'static,
    ) -> Result<Verdict, watch::Receiver<Option<Verdict>>> {
        let mut state = self.state();
        match &mut *state {
            State::Accepted { owner, message } => {
                take_over(owner, asker);
                Ok(Verdict::Accept { message: message.clone() })
            }
            State::Running { owner, verdict, .. } => {
                take_over(owner, asker);
                Err(verdict.clone())
            }
            State::Idle => {
                let (sender, receiver) = watch::channel(None);
                let stop = self.0.shutdown.child_token();
                *state = State::Running { owner: asker, stop: stop.clone(), verdict: receiver.clone() };
                let run = self.clone().run(context, stop, sender);
                self.0.tasks.spawn(run);
                Err(receiver)
            }
        }
    }

    async fn run(
        self,
        context: impl FnOnce() -> Context,
        stop: CancellationToken,
        sender: watch::Sender<Option<Verdict>>,
    ) {
        let _turn = self.0.turn.lock().await;
        let verdict = self.0.action.run(&context(), self.0.bounds, &stop).await;
        tracing::info!("the work ended: {verdict}");
        {
            let mut state = self.state();
            // The state no longer belongs to a run that was canceled.
            if !stop.is_cancelled()
                && let State::Running { owner, .. } = &*state
            {
                *state = match &verdict {
                    Verdict::Accept { message } => {
                        State::Accepted { owner: owner.clone(), message: message.clone() }
                    }
                    _ => State::Idle,
                };
            }
        }
        sender.send_replace(Some(verdict));
    }
}

/// Makes the last asker the owner, unless it only rehearses.
fn take_over(owner: &mut Owner, asker: Owner) {
    if !asker.rehearses() {
        *owner = asker;
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use super::*;
    use crate::context::{About, Event};

    const BOUNDS: Bounds = Bounds { limit: Duration::from_mins(1), grace: Duration::from_secs(5) };

    fn sh(script: &str, log: &Path) -> Action {
        let script = format!("log={}; {script}", log.display());
        Action::Exec(["sh".into(), "-c".into(), script].into())
    }

    fn asked(uid: &str, event: Event) -> Context {
        let about = About { uid: uid.to_owned(), ..About::default() };
        Context { event, evacuation: Some(about) }
    }

    async fn ask(work: &Work, uid: &'static str) -> Verdict {
        work.verdict(Owner::Evacuation(uid.to_owned()), move || asked(uid, Event::Ask)).await
    }

    async fn rehearse(work: &Work, uid: &'static str) -> Verdict {
        work.verdict(Owner::Rehearsal(uid.to_owned()), move || asked(uid, Event::Ask)).await
    }

    /// Work that waits for a file to come before it is done; and its log.
    fn work(folder: &Path) -> (Work, impl Fn() -> String) {
        let log = folder.join("log");
        let gate = folder.join("gate");
        let run = format!(
            "trap 'echo stopped >> $log; exit 1' TERM; echo run >> $log; until [ -e {} ]; do sleep 0.02; done",
            gate.display()
        );
        let work = Work::new(sh(&run, &log), Some(sh("echo undo >> $log", &log)), BOUNDS);
        (work, move || std::fs::read_to_string(&log).unwrap_or_default())
    }

    async fn until(log: &impl Fn() -> String, wanted: &str) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        while log() != wanted {
            assert!(tokio::time::Instant::now() < deadline, "{:?} is not {wanted:?}", log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn open(folder: &Path) {
        std::fs::write(folder.join("gate"), "").unwrap();
    }

    #[tokio::test]
    async fn who_asks_meanwhile_waits_for_the_same_run_and_who_asks_later_needs_none() {
        let folder = tempfile::tempdir().unwrap();
        let (work, log) = work(folder.path());
        let opener = async {
            until(&log, "run\n").await;
            open(folder.path());
        };
        let (first, second, ()) =
            tokio::join!(ask(&work, "a"), work.verdict(Owner::PreStop, Context::pre_stop), opener);
        let accept = Verdict::Accept { message: String::new() };
        assert_eq!((&first, &second), (&accept, &accept));
        assert_eq!(work.verdict(Owner::PreStop, Context::pre_stop).await, accept);
        assert_eq!(log(), "run\n");
    }

    #[tokio::test]
    async fn a_cancellation_stops_the_run_and_undoes_it_before_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let (work, log) = work(folder.path());
        let canceler = async {
            until(&log, "run\n").await;
            let cancel = work.cancel(asked("a", Event::Cancel));
            let again = async {
                // The cancellation took its turn first.
                tokio::task::yield_now().await;
                open(folder.path());
                ask(&work, "b").await
            };
            tokio::join!(cancel, again).1
        };
        let (first, second) = tokio::join!(ask(&work, "a"), canceler);
        assert!(matches!(first, Verdict::Failure { .. }), "{first:?}");
        assert!(matches!(second, Verdict::Accept { .. }), "{second:?}");
        assert_eq!(log(), "run\nstopped\nundo\nrun\n");
    }

    #[tokio::test]
    async fn work_that_was_accepted_is_undone_by_its_cancellation_and_done_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (work, log) = work(folder.path());
        open(folder.path());
        ask(&work, "a").await;
        work.cancel(asked("a", Event::Cancel)).await;
        ask(&work, "b").await;
        assert_eq!(log(), "run\nundo\nrun\n");
    }

    #[tokio::test]
    async fn work_that_was_accepted_is_undone_and_done_anew_when_another_evacuation_asks() {
        let folder = tempfile::tempdir().unwrap();
        let (work, log) = work(folder.path());
        open(folder.path());
        ask(&work, "a").await;
        ask(&work, "a").await;
        assert_eq!(log(), "run\n");
        ask(&work, "b").await;
        assert_eq!(log(), "run\nundo\nrun\n");
        // What a preStop hook had done is not undone: the pod is on its way out.
        work.verdict(Owner::PreStop, Context::pre_stop).await;
        ask(&work, "c").await;
        assert_eq!(log(), "run\nundo\nrun\n");
    }

    #[tokio::test]
    async fn a_rehearsal_is_answered_by_the_work_for_others_and_its_end_stops_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (work, log) = work(folder.path());
        let opener = async {
            until(&log, "run\n").await;
            work.cancel(asked("r", Event::Cancel)).await;
            open(folder.path());
        };
        let (first, second, ()) = tokio::join!(ask(&work, "a"), rehearse(&work, "r"), opener);
        let accept = Verdict::Accept { message: String::new() };
        assert_eq!((&first, &second), (&accept, &accept));
        // Nor when the work is done.
        assert_eq!(rehearse(&work, "s").await, accept);
        work.cancel(asked("s", Event::Cancel)).await;
        assert_eq!(ask(&work, "a").await, accept);
        assert_eq!(log(), "run\n");
    }

    #[tokio::test]
    async fn what_was_only_rehearsed_is_undone_and_done_anew_for_an_evacuation_or_a_pre_stop_hook() {
        let folder = tempfile::tempdir().unwrap();
        let (work, log) = work(folder.path());
        let real = async {
            until(&log, "run\n").await;
            let asked = ask(&work, "a");
            let again = async {
                until(&log, "run\nstopped\nundo\nrun\n").await;
                open(folder.path());
            };
            tokio::join!(asked, again).0
        };
        let (rehearsed, asked_for) = tokio::join!(rehearse(&work, "r"), real);
        assert!(matches!(rehearsed, Verdict::Failure { .. }), "{rehearsed:?}");
        assert!(matches!(asked_for, Verdict::Accept { .. }), "{asked_for:?}");
        work.cancel(asked("a", Event::Cancel)).await;
        rehearse(&work, "s").await;
        work.verdict(Owner::PreStop, Context::pre_stop).await;
        assert_eq!(log(), "run\nstopped\nundo\nrun\nundo\nrun\nundo\nrun\n");
    }

    #[tokio::test]
    async fn a_late_cancellation_of_an_earlier_evacuation_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (work, log) = work(folder.path());
        open(folder.path());
        ask(&work, "b").await;
        work.cancel(asked("a", Event::Cancel)).await;
        assert_eq!(log(), "run\n");
        // Nor does one of the evacuation whose pod is being stopped.
        work.verdict(Owner::PreStop, Context::pre_stop).await;
        work.cancel(asked("b", Event::Cancel)).await;
        assert_eq!(log(), "run\n");
    }

    #[tokio::test]
    async fn a_shutdown_stops_the_run_and_waits_for_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let (work, log) = work(folder.path());
        let stopper = async {
            until(&log, "run\n").await;
            work.shut_down().await;
            log()
        };
        let (verdict, log) = tokio::join!(ask(&work, "a"), stopper);
        assert!(matches!(verdict, Verdict::Failure { .. }), "{verdict:?}");
        assert_eq!(log, "run\nstopped\n");
    }

    #[tokio::test]
    async fn a_run_that_waits_for_its_turn_is_told_what_is_so_when_it_starts() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let work = Work::new(sh("echo $EVACUATION_DEADLINE >> $log", &log), None, BOUNDS);
        let deadline = Arc::new(Mutex::new("old"));
        let turn = work.0.turn.lock().await;
        let newest = deadline.clone();
        let verdict = work.verdict(Owner::Evacuation("a".to_owned()), move || {
            let mut context = asked("a", Event::Ask);
            if let Some(about) = &mut context.evacuation {
                about.deadline = Some((*newest.lock().unwrap()).to_owned());
            }
            context
        });
        let moved = async {
            // The run waits for its turn now.
            tokio::task::yield_now().await;
            *deadline.lock().unwrap() = "new";
            drop(turn);
        };
        let (verdict, ()) = tokio::join!(verdict, moved);
        assert!(matches!(verdict, Verdict::Accept { .. }), "{verdict:?}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "new\n");
    }
}
