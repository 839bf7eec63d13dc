use proptest::{collection::vec, prelude::*};

use super::*;

fn path(text: &str) -> Path {
    Path(text.split('.').map(PathElement::field).collect())
}

fn set(paths: &[&str]) -> FieldSet {
    paths.iter().map(|text| path(text)).collect()
}

#[test]
fn a_struct_and_its_fields_are_members_on_their_own() {
    let set = set(&["a.b", "c"]);
    assert!(set.has(&path("a.b").0) && set.has(&path("c").0));
    assert!(!set.has(&path("a").0) && !set.has(&path("c.d").0) && !set.has(&[]));
    assert_eq!(set.len(), 2);
}

#[test]
fn paths_come_level_by_level() {
    assert_eq!(set(&["a", "a.x", "b"]).to_string(), ".a\n.b\n.a.x");
}

#[test]
fn operations_treat_each_path_on_its_own() {
    let (left, right) = (set(&["a", "a.b", "a.c", "d"]), set(&["a", "a.b.x", "a.c", "e"]));
    assert_eq!(left.union(&right), set(&["a", "a.b", "a.b.x", "a.c", "d", "e"]));
    assert_eq!(left.intersection(&right), set(&["a", "a.c"]));
    assert_eq!(left.difference(&right), set(&["a.b", "d"]));
    assert_eq!(right.difference(&left), set(&["a.b.x", "e"]));
}

#[test]
fn a_recursive_difference_removes_what_lies_below() {
    let whole = set(&["spec", "spec.a", "status.b.c", "status.d", "x"]);
    assert_eq!(whole.recursive_difference(&set(&["status", "spec.a"])), set(&["spec", "x"]));
}

#[test]
fn leaves_have_no_members_below_them() {
    assert_eq!(set(&["a", "a.b", "c", "d.e"]).leaves(), set(&["a.b", "c", "d.e"]));
}

fn any_set() -> impl Strategy<Value = FieldSet> {
    let path = vec(prop_oneof![Just("a"), Just("b"), Just("c")], 1..4);
    vec(path, 0..8).prop_map(|paths| paths.iter().map(|names| Path::fields(names)).collect())
}

proptest! {
    #[test]
    fn operations_are_those_of_sets_of_paths(left in any_set(), right in any_set()) {
        let paths = |set: &FieldSet| set.paths().into_iter().collect::<std::collections::BTreeSet<_>>();
        let (ours, theirs) = (paths(&left), paths(&right));
        prop_assert_eq!(paths(&left.union(&right)), &ours | &theirs);
        prop_assert_eq!(paths(&left.intersection(&right)), &ours & &theirs);
        prop_assert_eq!(paths(&left.difference(&right)), &ours - &theirs);
        prop_assert_eq!(left.intersection(&right).union(&left.difference(&right)), left.clone());
        prop_assert_eq!(left.len(), ours.len());
        for path in &ours {
            prop_assert!(left.has(&path.0));
        }
    }
}
