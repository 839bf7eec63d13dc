//! The kinds that the controller cannot watch, as its lease says.

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Lease annotation with the [`Blindness`] of the controller that holds the lease. Absent while all of its
/// watches work.
pub const BLIND_ANNOTATION: &str = "evacuation.dev/blind";

/// Maximum number of kinds.
const MAX_KINDS: usize = 16;
/// Maximum number of kinds that the statement names, which a warning of the API server must hold.
const NAMED_KINDS: usize = 3;
/// Maximum length of the name of a kind, and of a reason, in bytes.
const MAX_WORD_BYTES: usize = 64;
/// Kinds without which no Evacuation is acted on. Drains need others, too.
const OF_NEGOTIATION: [&str; 2] = ["evacuations", "pods"];

/// The kinds that a controller cannot watch. It renews its lease and sees no change of them, as without its
/// ClusterRoleBinding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blindness {
    /// Identity of the controller in the lease.
    pub holder: String,
    /// Plural names of the kinds.
    pub kinds: Vec<String>,
    /// Time since which the first of them cannot be watched, by the API server's clock.
    pub since: Timestamp,
    /// Reason of its last failure, such as `Forbidden`.
    pub reason: String,
    /// True for a controller that has not begun to act, because it has never listed all of its kinds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
}

impl Blindness {
    /// Writes the annotation, or removes it.
    pub fn write(blindness: Option<&Self>, metadata: &mut ObjectMeta) {
        // Strings alone are always valid JSON.
        let text = blindness.and_then(|blindness| serde_json::to_string(&blindness.bounded()).ok());
        match (text, &mut metadata.annotations) {
            (Some(text), annotations) => {
                annotations.get_or_insert_default().insert(BLIND_ANNOTATION.to_owned(), text);
            }
            (None, Some(annotations)) => drop(annotations.remove(BLIND_ANNOTATION)),
            (None, None) => {}
        }
    }

    /// Returns what the holder of a lease cannot watch.
    ///
    /// The annotation of another controller says nothing: an older version renews the lease and leaves the
    /// annotation as it is.
    pub fn of(lease: &Lease) -> Option<Self> {
        let holder = lease.spec.as_ref()?.holder_identity.as_deref();
        Self::recorded(lease).filter(|read| holder == Some(read.holder.as_str()))
    }

    /// Returns what the last holder of a lease could not watch, who may have given it back since.
    pub fn of_last(lease: &Lease) -> Option<Self> {
        let holder = lease.spec.as_ref()?.holder_identity.as_deref().unwrap_or_default();
        Self::recorded(lease).filter(|read| holder.is_empty() || holder == read.holder)
    }

    fn recorded(lease: &Lease) -> Option<Self> {
        let text = lease.metadata.annotations.as_ref()?.get(BLIND_ANNOTATION)?;
        let read: Self = serde_json::from_str(text).ok()?;
        (!read.kinds.is_empty()).then(|| read.bounded())
    }

    fn bounded(&self) -> Self {
        let kinds = self.kinds.iter().take(MAX_KINDS).map(|kind| word(kind)).collect();
        Self { kinds, reason: word(&self.reason), ..self.clone() }
    }

    /// Returns true when no Evacuation is acted on. A controller that acts and loses other kinds goes on with
    /// them, and only its drains stand still.
    pub fn stops_negotiation(&self) -> bool {
        self.waits || self.kinds.iter().any(|kind| OF_NEGOTIATION.contains(&kind.as_str()))
    }

    /// Returns the statement, with `since` as the reader shows it.
    pub fn statement(&self, since: &str) -> String {
        let named = self.kinds.get(..NAMED_KINDS).unwrap_or(&self.kinds);
        let more = self.kinds.len().saturating_sub(named.len());
        let kinds = match named.split_last() {
            _ if more > 0 => {
                let kinds = if more == 1 { "kind" } else { "kinds" };
                format!("{} and {more} other {kinds}", named.join(", "))
            }
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => String::new(),
        };
        let reason = &self.reason;
        format!("the controller has been unable to list or watch {kinds} since {since}: {reason}")
    }

    /// Returns the place to look at. `namespace` is that of the installation.
    pub fn way_out(&self, namespace: &str) -> String {
        if self.reason == "Forbidden" {
            "kubectl get clusterrole,clusterrolebinding evacuation-controller -o wide; apply the manifests again"
                .to_owned()
        } else {
            format!("kubectl logs -n {namespace} -l app.kubernetes.io/name=evacuation-controller")
        }
    }
}

/// Returns the first bytes of a word.
fn word(text: &str) -> String {
    text.get(..text.floor_char_boundary(MAX_WORD_BYTES)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::LeaseSpec;

    use super::*;

    fn blindness(kinds: &[&str]) -> Blindness {
        Blindness {
            holder: "c-0".to_owned(),
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            since: chrono::DateTime::UNIX_EPOCH.into(),
            reason: "Forbidden".to_owned(),
            waits: false,
        }
    }

    fn lease(holder: Option<&str>, blindness: &Blindness) -> Lease {
        let spec = LeaseSpec { holder_identity: holder.map(str::to_owned), ..LeaseSpec::default() };
        let mut lease = Lease { spec: Some(spec), ..Lease::default() };
        Blindness::write(Some(blindness), &mut lease.metadata);
        lease
    }

    #[test]
    fn a_lease_says_what_its_holder_cannot_watch_until_it_can() {
        let blind = blindness(&["nodes", "pods"]);
        let mut held = lease(Some("c-0"), &blind);
        assert_eq!(Blindness::of(&held), Some(blind.clone()));
        assert_eq!(Blindness::of_last(&held), Some(blind));
        Blindness::write(None, &mut held.metadata);
        assert_eq!((Blindness::of(&held), Blindness::of_last(&held)), (None, None));
    }

    #[test]
    fn the_annotation_of_an_earlier_holder_says_nothing_of_the_present_one() {
        let blind = blindness(&["pods"]);
        let (taken, given_back) = (lease(Some("c-1"), &blind), lease(Some(""), &blind));
        assert_eq!((Blindness::of(&taken), Blindness::of_last(&taken)), (None, None));
        assert_eq!((Blindness::of(&given_back), Blindness::of_last(&given_back)), (None, Some(blind)));
    }

    #[test]
    fn the_annotation_is_bounded_and_one_that_cannot_be_read_says_nothing() {
        let long = "x".repeat(1000);
        let mut blind = blindness(&vec![long.as_str(); 100]);
        blind.reason = "ä".repeat(100);
        let mut held = lease(Some("c-0"), &blind);
        let read = Blindness::of(&held).expect("it is read");
        assert_eq!((read.kinds.len(), read.kinds[0].len(), read.reason.len()), (16, 64, 64));
        for text in ["{", r#"{"holder":"c-0","kinds":[],"since":"2026-01-01T00:00:00Z","reason":""}"#] {
            held.metadata.annotations.as_mut().unwrap().insert(BLIND_ANNOTATION.to_owned(), text.to_owned());
            assert_eq!(Blindness::of(&held), None);
        }
    }

    #[test]
    fn the_statement_names_all_kinds_and_the_way_out_fits_the_reason() {
        let mut blind = blindness(&["evacuations", "nodes", "pods"]);
        assert_eq!(
            blind.statement("02:13:07Z (4 min ago)"),
            "the controller has been unable to list or watch evacuations, nodes and pods since 02:13:07Z \
             (4 min ago): Forbidden"
        );
        assert!(blind.way_out("ns").contains("clusterrolebinding evacuation-controller"));
        blind.reason = "InternalError".to_owned();
        assert!(blind.way_out("ns").starts_with("kubectl logs -n ns -l "));
    }

    #[test]
    fn a_controller_that_cannot_see_drains_still_acts_on_evacuations() {
        let mut drains = blindness(&["nodeevacuations"]);
        assert!(!drains.stops_negotiation());
        drains.waits = true;
        assert!(drains.stops_negotiation(), "it has not begun to act");
        assert!(blindness(&["nodeevacuations", "pods"]).stops_negotiation());
    }
}
