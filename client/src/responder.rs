//! The answering side: watches for questions and calls the app's handler.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use evacuation_api::{
    Answer as Word, Evacuation, ResponderState, ResponderStatus, SELF_RESPONDER, SelfEvacuation,
};
use futures::StreamExt;
use kube::{Api, Client, runtime::watcher};
use tokio::sync::watch::Receiver;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{
    Connection, Handler, Question,
    connection::Reporter,
    error_chain,
    session::{Session, question, say_canceled},
    source::Source,
    watching::watch,
};

/// Answers questions for one responder.
///
/// # Guarantees
///
/// The handler is called once each time the responder becomes active. It is called again when its answer says
/// so or when it panicked. At most one call per Evacuation is under way. An answer is posted until it is
/// recorded or the question has ended. An answer that is lost because the API's store was restored from an
/// older backup is posted again. After an outage of the API the responder continues. After a restart of the
/// app an open question is asked again, unless it was accepted before. A cancellation is acknowledged after
/// the handler has returned from it.
#[derive(Clone)]
pub struct Responder {
    client: Client,
    name: String,
    scope: Scope,
    shutdown: CancellationToken,
    reporter: Reporter,
}

#[derive(Clone)]
enum Scope {
    Pod { namespace: String },
    Named { namespace: Option<String> },
}

impl Responder {
    /// The responder `self` of the pod that the client's token is bound to, in the client's default
    /// namespace.
    pub fn of_pod(client: Client) -> Self {
        let namespace = client.default_namespace().to_owned();
        Self {
            client,
            name: SELF_RESPONDER.to_owned(),
            scope: Scope::Pod { namespace },
            shutdown: CancellationToken::new(),
            reporter: Reporter::default(),
        }
    }

    /// A responder with a domain-prefixed name such as `db.acme.io/failover`, for the Evacuations of one
    /// namespace or of all. It needs RBAC: watch `evacuations`, create `evacuations/respond`, and the verb
    /// `respond` on `responders` for its name.
    pub fn named(client: Client, name: impl Into<String>, namespace: Option<&str>) -> Self {
        Self {
            client,
            name: name.into(),
            scope: Scope::Named { namespace: namespace.map(str::to_owned) },
            shutdown: CancellationToken::new(),
            reporter: Reporter::default(),
        }
    }

    /// Ends [`Responder::run`] when the token is cancelled. Answers that were recorded stay valid.
    #[must_use]
    pub fn until(mut self, shutdown: CancellationToken) -> Self {
        self.shutdown = shutdown;
        self
    }

    /// Reports whether the responder sees new questions, such as for a readiness probe.
    pub fn connection(&self) -> Receiver<Connection> {
        self.reporter.subscribe()
    }

    /// Answers until the token given to [`Responder::until`] is cancelled; for ever without one.
    pub async fn run(self, handler: impl Handler) {
        let handler: Arc<dyn Handler> = Arc::new(handler);
        match self.scope.clone() {
            Scope::Pod { namespace } => {
                let api = Api::<SelfEvacuation>::namespaced(self.client.clone(), &namespace);
                self.watch(api, handler).await;
            }
            Scope::Named { namespace: Some(namespace) } => {
                let api = Api::<Evacuation>::namespaced(self.client.clone(), &namespace);
                self.watch(api, handler).await;
            }
            Scope::Named { namespace: None } => {
                let api = Api::<Evacuation>::all(self.client.clone());
                self.watch(api, handler).await;
            }
        }
    }

    async fn watch<S: Source>(self, api: Api<S>, handler: Arc<dyn Handler>) {
        let events = watch(api, watcher::Config::default());
        let mut events = events.take_until(self.shutdown.clone().cancelled_owned()).boxed();
        let mut desk = Desk {
            client: self.client,
            name: self.name,
            handler,
            sessions: HashMap::new(),
            listed: None,
            acknowledging: HashMap::new(),
            farewells: TaskTracker::new(),
        };
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // An Init is only the start of an attempt.
                    if !matches!(event, watcher::Event::Init) {
                        self.reporter.up();
                    }
                    desk.take(event);
                }
                Err(error) => self.reporter.down(error_chain(&error)),
            }
        }
    }
}

/// The sessions of one responder.
struct Desk {
    client: Client,
    name: String,
    handler: Arc<dyn Handler>,
    sessions: HashMap<String, Session>,
    /// The UIDs seen since a list began.
    listed: Option<Vec<String>>,
    /// Cancellations that are being acknowledged, by the Evacuation's UID. A guard ends one when its
    /// Evacuation is gone.
    acknowledging: HashMap<String, DropGuard>,
    farewells: TaskTracker,
}

impl Desk {
    fn take<S: Source>(&mut self, event: watcher::Event<S>) {
        match event {
            watcher::Event::Init => self.listed = Some(Vec::new()),
            watcher::Event::InitApply(object) => {
                if let Some(listed) = &mut self.listed {
                    listed.push(object.uid().to_owned());
                }
                self.see(&object);
            }
            watcher::Event::Apply(object) => self.see(&object),
            watcher::Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                self.sessions.retain(|uid, _| listed.contains(uid));
                self.acknowledging.retain(|uid, _| listed.contains(uid));
            }
            watcher::Event::Delete(object) => {
                self.sessions.remove(object.uid());
                self.acknowledging.remove(object.uid());
            }
        }
    }

    fn see<S: Source>(&mut self, object: &S) {
        let Some(responder) = object.responder(&self.name) else {
            return;
        };
        match responder.state {
            ResponderState::Active if !object.finished() => self.ask(object, responder),
            ResponderState::Canceled => {
                self.sessions.remove(object.uid());
                if !responder.cancellation_acknowledged && responder.active_time.is_some() {
                    self.say_canceled(question(&self.client, object, responder).0);
                }
            }
            _ => {
                if let Some(session) = self.sessions.get_mut(object.uid()) {
                    session.follow(object, responder);
                }
            }
        }
    }

    fn ask<S: Source>(&mut self, object: &S, responder: &ResponderStatus) {
        if let Some(session) = self.sessions.get_mut(object.uid())
            && session.is_of(responder)
        {
            session.follow(object, responder);
            return;
        }
        // An Accept binds: an app that restarted after it is not asked again.
        if responder.answer == Some(Word::Accept) {
            return;
        }
        let session = Session::start(&self.client, object, responder, self.handler.clone());
        self.sessions.insert(object.uid().to_owned(), session);
    }

    fn say_canceled(&mut self, question: Question) {
        if let Entry::Vacant(vacant) = self.acknowledging.entry(question.uid.clone()) {
            vacant.insert(question.closed.clone().drop_guard());
            self.farewells.spawn(say_canceled(question, self.handler.clone()));
        }
    }
}
