//! Deletions that count as evictions: the time from which one passes the budgets that hold it back.

use chrono::{DateTime, Utc};
use evacuation_api::{ConditionType, Evacuation, EvacuationStatus, Requester, RequesterKey};

use crate::{policy::has_expired, time::after};

/// A deletion that waits for a budget as an eviction does.
#[derive(Clone, Copy, Debug)]
pub struct CountedDeletion<'a> {
    /// The entry that stands for it.
    pub entry: &'a Requester,
    /// The time from which it passes whatever budgets allow, with the next try of its caller.
    pub passes_at: DateTime<Utc>,
}

/// Returns the time since which a budget holds the eviction back. An older server has recorded none.
pub fn budget_blocked_since(status: &EvacuationStatus) -> Option<DateTime<Utc>> {
    let since = status.eviction.as_ref()?.budget_blocked_time?.0;
    status.is_true(ConditionType::Blocked).then_some(since)
}

/// Returns the time at which an entry was made, unless it has left or expired.
pub fn joined_at(status: &EvacuationStatus, key: RequesterKey<'_>) -> Option<DateTime<Utc>> {
    let own = status.requesters.iter().find(|known| known.key() == key && known.left_time.is_none())?;
    let expired = status.policy.as_ref().is_some_and(|policy| has_expired(policy, key));
    (!expired).then(|| own.joined().0)
}

/// Returns the time from which the deletion behind an entry passes the budgets that hold it back now.
///
/// The patience counts from the later of two times: the entry was made, and a budget became the reason.
/// Neither the patience of another requester nor time under another reason counts. `None` while no budget is
/// the reason.
pub fn passes_budgets_at(
    status: &EvacuationStatus,
    key: RequesterKey<'_>,
    patience_seconds: i64,
) -> Option<DateTime<Utc>> {
    let since = budget_blocked_since(status)?.max(joined_at(status, key)?);
    Some(after(since, patience_seconds))
}

/// Returns the deletion that passes the budgets first, of those that wait for them now.
pub fn counted_deletion(evacuation: &Evacuation) -> Option<CountedDeletion<'_>> {
    let status = evacuation.status.as_ref()?;
    let counted = evacuation.spec.requesters.iter().filter_map(|entry| {
        let passes_at = passes_budgets_at(status, entry.key(), entry.budget_patience_seconds?)?;
        Some(CountedDeletion { entry, passes_at })
    });
    counted.min_by_key(|deletion| deletion.passes_at)
}

#[cfg(test)]
mod tests {
    use evacuation_api::{DeadlineAction, EvictionStatus};

    use super::*;
    use crate::{
        derive_policy,
        testing::{at, condition, evacuation_for, requester},
    };

    /// Returns an Evacuation whose entry has that patience. A budget holds it back since that time.
    fn held(patience: Option<i64>, blocked_since: Option<i64>) -> Evacuation {
        let entry = Requester { budget_patience_seconds: patience, ..requester("a.b/rs") };
        let mut held = evacuation_for(vec![requester("a.b/drain"), entry]);
        let status = held.status.get_or_insert_default();
        if let Some(seconds) = blocked_since {
            status.conditions.push(condition("Blocked", "True", "BudgetExhausted"));
            let eviction: &mut EvictionStatus = status.eviction.get_or_insert_default();
            eviction.budget_blocked_time = Some(at(seconds).into());
        }
        held
    }

    fn passes_at(held: &Evacuation) -> Option<DateTime<Utc>> {
        counted_deletion(held).map(|deletion| deletion.passes_at)
    }

    #[test]
    fn the_patience_of_a_counted_deletion_begins_with_its_entry_or_with_the_budget() {
        assert_eq!(passes_at(&held(Some(60), Some(30))), Some(at(90)), "the entry was made at 0");
        assert_eq!(passes_at(&held(Some(60), None)), None, "no budget is the reason");
        assert_eq!(passes_at(&held(None, Some(30))), None, "no deletion counts");
        let mut late = held(Some(60), Some(30));
        late.status.as_mut().unwrap().requesters[1].joined_time = Some(at(50).into());
        assert_eq!(passes_at(&late), Some(at(110)));
        late.status.as_mut().unwrap().requesters[1].left_time = Some(at(55).into());
        assert_eq!(passes_at(&late), None, "it left");
    }

    #[test]
    fn an_entry_that_expired_stands_for_no_deletion() {
        let mut held = held(Some(60), Some(30));
        let entry = &mut held.spec.requesters[1];
        entry.deadline = Some(at(40).into());
        entry.at_deadline = Some(DeadlineAction::GiveUp);
        held.status.as_mut().unwrap().policy = Some(derive_policy(&held.spec.requesters, None, at(45)));
        assert_eq!(passes_at(&held), None);
    }
}
