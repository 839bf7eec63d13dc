//! The example kind and a custom resource of the same schema give the same replies.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by them")]

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use machinery_conformance::{Platform, Request, Trial, cases, differences, sequence};
use tokio::sync::OnceCell;

/// Number of sequences in the ordinary run.
const SEQUENCES: u64 = 100;
/// Sequences that run at once, each in a namespace of its own.
const TRIALS: usize = 4;
/// Maximum number of failures that are shortened and printed.
const SHOWN: usize = 40;

static PLATFORM: OnceCell<Arc<Platform>> = OnceCell::const_new();

async fn platform() -> Arc<Platform> {
    let start = || async { Platform::start().await.map(Arc::new) };
    PLATFORM.get_or_try_init(start).await.expect("a platform").clone()
}

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |value| value.parse().expect("a number"))
}

/// Sum of the outcomes.
#[derive(Default)]
struct Sum {
    requests: usize,
    differences: BTreeSet<&'static str>,
    /// Failures by the places in which replies differ.
    failures: BTreeMap<String, String>,
    failed: usize,
    /// Failures that did not occur again.
    passing: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn generated_requests_get_the_replies_that_a_custom_resource_gives() {
    let platform = platform().await;
    let first = number("CONFORMANCE_SEED", 1);
    let end = first + number("CONFORMANCE_SEQUENCES", SEQUENCES);
    let (next, sum) = (Arc::new(AtomicU64::new(first)), Arc::new(Mutex::new(Sum::default())));
    let mut trials = Vec::new();
    for at in 0..TRIALS {
        let (platform, next, sum) = (platform.clone(), next.clone(), sum.clone());
        trials.push(tokio::spawn(async move {
            let mut trial = Trial::new(platform.sides(&format!("trial-{at}")).await.expect("a namespace"));
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= end {
                    return;
                }
                try_one(&mut trial, seed, &sum).await;
            }
        }));
    }
    for trial in trials {
        trial.await.expect("no panic");
    }
    let mut sum = std::mem::take(&mut *sum.lock().unwrap_or_else(PoisonError::into_inner));
    println!("{} sequences, {} requests, {} failed", end - first, sum.requests, sum.failed);
    println!("differences that occurred: {:?}", sum.differences);
    for failure in &sum.passing {
        println!("did not occur again: {failure}");
    }
    for failure in sum.failures.values() {
        println!("{failure}");
    }
    assert!(sum.failures.is_empty(), "{} sequences failed, see above", sum.failed);
    let sequences = usize::try_from(end - first).expect("few");
    // What fails once may be a race of the test's own requests; what fails once in many sequences is none.
    let most = 3 + sequences / 100;
    assert!(sum.passing.len() <= most, "{} sequences failed once, see above", sum.passing.len());
    assert!(
        sequences < 100 || sum.requests >= 3 * sequences,
        "{} requests are too few to show anything",
        sum.requests
    );
    if env::var_os("CONFORMANCE_LONG").is_some() {
        let mut trial = Trial::new(platform.sides("trial-cases").await.expect("a namespace"));
        for case in cases() {
            sum.differences.extend(trial.run(&case.requests).await.expect("answers").differences);
        }
        let missing: Vec<_> = differences()
            .map(|difference| difference.name)
            .filter(|name| !sum.differences.contains(name))
            .collect();
        assert!(missing.is_empty(), "listed differences that no longer occur: {missing:?}");
    }
}

async fn try_one(trial: &mut Trial, seed: u64, sum: &Mutex<Sum>) {
    let requests = sequence(seed);
    let outcome = match trial.run(&requests).await {
        Ok(outcome) => outcome,
        Err(error) => {
            let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
            sum.failed += 1;
            sum.failures.insert(format!("{error:#}"), format!("seed {seed}: {error:#}"));
            return;
        }
    };
    let mut failure = None;
    if let Some((at, _)) = &outcome.failure {
        let many = sum.lock().unwrap_or_else(PoisonError::into_inner).failures.len() >= SHOWN;
        failure = if many {
            None
        } else {
            Some(trial.shorten(&requests, *at).await.unwrap_or_else(|error| panic!("seed {seed}: {error:#}")))
        };
    }
    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
    sum.requests += outcome.requests;
    sum.differences.extend(outcome.differences);
    match failure {
        Some(Some(failure)) => {
            sum.failed += 1;
            let places: Vec<_> = failure.mismatches.iter().map(ToString::to_string).collect();
            sum.failures.entry(places.join(" ")).or_insert_with(|| format!("seed {seed}:\n{failure}"));
        }
        Some(None) => {
            let (at, found) = outcome.failure.unwrap_or_default();
            let request = requests.get(at).map(ToString::to_string).unwrap_or_default();
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            sum.passing.push(format!("seed {seed}: {request}\n    {}", found.join("\n    ")));
        }
        None => sum.failed += usize::from(outcome.failure.is_some()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sequences_that_failed_once_agree() {
    let platform = platform().await;
    let mut trial = Trial::new(platform.sides("cases").await.expect("a namespace"));
    for case in cases() {
        let outcome = trial.run(&case.requests).await.expect("answers");
        let found: Vec<String> =
            outcome.failure.into_iter().flat_map(|(_, found)| found).map(|found| found.to_string()).collect();
        assert!(found.is_empty(), "{}:\n{}", case.name, found.join("\n"));
        assert_eq!(outcome.requests, case.requests.len(), "{}: every place holder has a value", case.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_scales_a_fleet_as_it_scales_a_custom_resource() {
    let platform = platform().await;
    let (mut theirs, mut ours) = platform.sides("kubectl").await.expect("a namespace");
    let fleet = r#"{"metadata":{"name":"a"},"apiVersion":"example.machinery.dev/v1","kind":"Fleet","spec":{"depot":"north"}}"#;
    let create = Request::new(http::Method::POST, "").body("application/json", fleet);
    for (side, resource) in
        [(&mut theirs, "fleets.conform.machinery.dev/a"), (&mut ours, "fleets.example.machinery.dev/a")]
    {
        let created = side.send(&create).await.expect("an answer").expect("no place holders");
        assert_eq!(created.code, 201, "{:?}", created.body);
        let kubectl = |arguments: &'static [&'static str]| {
            let arguments: Vec<&str> =
                arguments.iter().copied().chain([resource, "--namespace=kubectl"]).collect();
            let platform = platform.clone();
            async move { platform.control_plane().kubectl(&arguments).await.expect("kubectl") }
        };
        let scaled = kubectl(&["scale", "--replicas=5", "--current-replicas=1"]).await;
        assert!(scaled.success() && scaled.stdout.contains("scaled"), "{scaled:?}");
        let replicas = kubectl(&["get", "--output=jsonpath={.spec.replicas}"]).await;
        assert_eq!(replicas.stdout, "5", "{replicas:?}");
        let shown = kubectl(&["get", "--subresource=scale"]).await;
        assert!(shown.stdout.contains("DESIRED") && shown.stdout.contains("AVAILABLE"), "{shown:?}");
        let refused = kubectl(&["scale", "--replicas=7", "--current-replicas=1"]).await;
        assert!(
            !refused.success() && refused.stderr.contains("Expected replicas to be 1, was 5"),
            "{refused:?}"
        );
        let many = kubectl(&["scale", "--replicas=1001"]).await;
        assert!(!many.success() && many.stderr.contains("less than or equal to 1000"), "{many:?}");
    }
}
