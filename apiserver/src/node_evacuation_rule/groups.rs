//! The groups of a rule's user, and the time for which they count.
//!
//! A rule opens drains for as long as it stands. The authoriser judges the user by name and groups, and only
//! a request of the user proves the groups. The recorded ones count for a time after such a request. Then
//! only those count that follow from the name.

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{DrainUser, Timestamp};
use machinery_auth::UserInfo;

const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Time for which the recorded groups of a rule's user count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupTerm(TimeDelta);

impl GroupTerm {
    /// Returns a term of so many days.
    pub fn of_days(days: u16) -> Self {
        Self(TimeDelta::days(days.into()))
    }

    /// Returns the time at which the recorded groups cease to count.
    pub(crate) fn end(self, recorded: &DrainUser) -> DateTime<Utc> {
        recorded.time.0.checked_add_signed(self.0).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    /// Returns the user as the authoriser is to judge it now.
    pub(crate) fn judged(self, recorded: &DrainUser, now: DateTime<Utc>) -> UserInfo {
        if self.end(recorded) <= now {
            return without_recorded_groups(&recorded.user);
        }
        user(&recorded.user, recorded.groups.clone())
    }

    /// Returns the record of a write by that caller, when it differs: the user is there and has other groups,
    /// or half of the term is over. Until then a repeated write changes nothing.
    pub(crate) fn renewed(
        self,
        recorded: &DrainUser,
        caller: &UserInfo,
        now: DateTime<Utc>,
    ) -> Option<DrainUser> {
        let half = recorded.time.0.checked_add_signed(self.0 / 2).unwrap_or(DateTime::<Utc>::MAX_UTC);
        let changed = caller.groups != recorded.groups || half <= now;
        let renewed =
            || DrainUser { groups: caller.groups.clone(), time: Timestamp(now), ..recorded.clone() };
        (caller.name == recorded.user && changed).then(renewed)
    }
}

/// Returns the user with the groups that follow from its name, as Kubernetes gives them.
pub(crate) fn without_recorded_groups(name: &str) -> UserInfo {
    let mut groups = vec!["system:authenticated".to_owned()];
    if let Some((namespace, _)) =
        name.strip_prefix(SERVICE_ACCOUNT_PREFIX).and_then(|rest| rest.split_once(':'))
    {
        groups.insert(0, format!("system:serviceaccounts:{namespace}"));
        groups.insert(0, "system:serviceaccounts".to_owned());
    }
    user(name, groups)
}

fn user(name: &str, groups: Vec<String>) -> UserInfo {
    UserInfo { name: name.to_owned(), groups, ..UserInfo::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: u16 = 90;

    fn at(days: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::days(days)
    }

    fn recorded(name: &str) -> DrainUser {
        DrainUser { user: name.to_owned(), groups: vec!["admins".to_owned()], time: Timestamp(at(0)) }
    }

    #[test]
    fn recorded_groups_count_for_the_term_and_those_of_the_name_for_ever() {
        let account = "system:serviceaccount:flux:applier";
        let of_account = ["system:serviceaccounts", "system:serviceaccounts:flux", "system:authenticated"];
        for (name, days, expected) in [
            ("jane", 0, &["admins"][..]),
            ("jane", 89, &["admins"]),
            ("jane", 90, &["system:authenticated"]),
            (account, 89, &["admins"]),
            (account, 90, &of_account),
            ("system:serviceaccount:broken", 90, &["system:authenticated"]),
        ] {
            let judged = GroupTerm::of_days(TERM).judged(&recorded(name), at(days));
            assert_eq!(
                (judged.name.as_str(), judged.groups),
                (name, expected.iter().map(|g| (*g).to_owned()).collect())
            );
        }
    }

    #[test]
    fn only_the_user_itself_renews_its_groups() {
        for (caller, groups, days, renews) in [
            ("jane", "admins", 44, false),
            ("jane", "admins", 45, true),
            ("jane", "people", 1, true),
            ("joe", "people", 80, false),
        ] {
            let caller = user(caller, vec![groups.to_owned()]);
            let renewed = GroupTerm::of_days(TERM).renewed(&recorded("jane"), &caller, at(days));
            let expected = renews.then(|| DrainUser {
                user: "jane".to_owned(),
                groups: vec![groups.to_owned()],
                time: Timestamp(at(days)),
            });
            assert_eq!(renewed, expected, "{caller:?} {days}");
        }
    }
}
