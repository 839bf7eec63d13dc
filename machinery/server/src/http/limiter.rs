//! How many watches are served at once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use machinery_auth::UserInfo;

use crate::{ApiError, Reason, ServerOptions};

/// Where the kube-apiserver puts the pod that a service account's token is bound to.
const POD_UID_EXTRA: &str = "authentication.kubernetes.io/pod-uid";

/// How many watches are served at once: in all, and of one caller. A watch holds no place among the requests in flight, but a connection
/// and memory for as long as it goes on.
///
/// The pods of an app share a service account, so a caller whose token is bound to a pod is that pod.
#[derive(Debug)]
pub(crate) struct WatchPlaces {
    counts: Arc<Mutex<Counts>>,
    most: usize,
    most_of_one: usize,
    most_of_one_on_views: usize,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_caller: HashMap<String, usize>,
}

/// A place among the watches being served, until it is dropped.
#[derive(Debug)]
pub(crate) struct WatchPlace {
    counts: Arc<Mutex<Counts>>,
    caller: String,
}

impl WatchPlaces {
    pub(crate) fn new(options: &ServerOptions) -> Self {
        Self {
            counts: Arc::default(),
            most: options.max_watches,
            most_of_one: options.max_watches_of_one,
            most_of_one_on_views: options.max_view_watches_of_one,
        }
    }

    /// Takes a place.
    ///
    /// # Errors
    ///
    /// `TooManyRequests` when there is none, unless the caller is `privileged`: an administrator can always look.
    pub(crate) fn enter(
        &self,
        user: &UserInfo,
        privileged: bool,
        of_view: bool,
    ) -> Result<WatchPlace, ApiError> {
        let (most, most_of_one) = if of_view {
            (self.most - self.most / 4, self.most_of_one.min(self.most_of_one_on_views))
        } else {
            (self.most, self.most_of_one)
        };
        let caller = caller(user);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let own = counts.by_caller.get(&caller).copied().unwrap_or_default();
        let refuse = |message: String| ApiError::status(Reason::TooManyRequests, message).retry_after(5);
        if own >= most_of_one && !privileged {
            let message = format!("User {:?} has {own} watches, the most for one caller", user.name);
            return Err(refuse(message));
        }
        if counts.all >= most && !privileged {
            return Err(refuse("too many watches, please try again later".to_owned()));
        }
        counts.all += 1;
        counts.by_caller.insert(caller.clone(), own + 1);
        Ok(WatchPlace { counts: self.counts.clone(), caller })
    }
}

fn caller(user: &UserInfo) -> String {
    let pod = user.extra.get(POD_UID_EXTRA).and_then(|uids| uids.first());
    pod.map_or_else(|| user.name.clone(), |pod| format!("{} {pod}", user.name))
}

impl Drop for WatchPlace {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all = counts.all.saturating_sub(1);
        let left = counts.by_caller.get_mut(&self.caller).map(|own| {
            *own = own.saturating_sub(1);
            *own
        });
        if left == Some(0) {
            counts.by_caller.remove(&self.caller);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, pod: Option<&str>) -> UserInfo {
        let extra = pod.map(|pod| (POD_UID_EXTRA.to_owned(), vec![pod.to_owned()]));
        UserInfo { name: name.to_owned(), extra: extra.into_iter().collect(), ..UserInfo::default() }
    }

    #[test]
    fn watches_are_limited_in_all_and_for_each_caller_and_places_come_back() {
        let places = WatchPlaces::new(&ServerOptions {
            max_watches: 3,
            max_watches_of_one: 2,
            ..ServerOptions::default()
        });
        let refused = |user: &UserInfo| {
            let error = places.enter(user, false, false).expect_err("no place");
            assert_eq!(error.reason(), Reason::TooManyRequests);
        };
        let (jane, one, other) = (user("jane", None), user("app", Some("1")), user("app", Some("2")));
        let first = places.enter(&jane, false, false).expect("a place");
        let _second = places.enter(&jane, false, false).expect("a place");
        refused(&jane);
        let third = places.enter(&one, false, false).expect("a place of its own");
        refused(&other);
        let _administrator = places.enter(&jane, true, false).expect("always");
        drop((first, third));
        places.enter(&other, false, false).expect("free again");
        refused(&jane);
    }

    #[test]
    fn watches_of_views_leave_places_for_others() {
        let places = WatchPlaces::new(&ServerOptions {
            max_watches: 8,
            max_view_watches_of_one: 2,
            ..ServerOptions::default()
        });
        let enter = |pod: usize| places.enter(&user("app", Some(&pod.to_string())), false, true);
        let held: Vec<_> = (0..6).map(|n| enter(n / 2).expect("a place")).collect();
        enter(0).expect_err("a pod has two");
        enter(9).expect_err("six of eight are taken");
        let controller = user("controller", None);
        let _watches = [(); 2].map(|()| places.enter(&controller, false, false).expect("a place"));
        drop(held);
        enter(9).expect("free again");
    }

    #[test]
    fn nothing_is_kept_of_callers_that_left() {
        let places = WatchPlaces::new(&ServerOptions::default());
        drop(places.enter(&user("jane", None), false, false));
        let counts = places.counts.lock().expect("a lock");
        assert!(counts.by_caller.is_empty() && counts.all == 0);
    }
}
