//! The gateway.

use evacuation_api::GATEWAY_WEBHOOKS;
use k8s_openapi::api::admissionregistration::v1::{ValidatingWebhook, ValidatingWebhookConfiguration};

use super::{
    super::{
        facts::{Facts, GATEWAY, called},
        item::Item,
        reader::Unread,
        trial::Trial,
    },
    replicas::{Replicas, pods_of},
};
use crate::moment::count;

/// Consequence of a gateway that does not answer, with failurePolicy Ignore.
pub(super) const PASS_UNASKED: &str = "calls pass unasked";

/// Judges the gateway by its webhooks, by a trial call and by its replicas.
pub(super) fn gateway(name: &'static str, facts: &Facts) -> Item {
    let configuration = match &facts.webhooks {
        Ok(configuration) => configuration,
        Err(Unread::Absent) => return not_installed(name, facts),
        Err(unread) => return Item::unread(name, unread, "", "kubectl get validatingwebhookconfigurations"),
    };
    let webhooks = configuration.webhooks.as_deref().unwrap_or_default();
    let described = format!("kubectl get validatingwebhookconfiguration {GATEWAY} -o yaml");
    let pods = pods_of(&facts.namespace, GATEWAY);
    let replicas = Replicas::of_deployment(&facts.deployments, GATEWAY);
    let text =
        format!("{}, failurePolicy {}; {replicas}", count(webhooks.len(), "webhook"), policies(webhooks));
    if webhooks.is_empty() {
        return Item::failed(
            name,
            "its webhook configuration has no webhooks, so that nothing is asked",
            described,
        );
    }
    if replicas.is_down() {
        return absent(name, &text, webhooks, pods);
    }
    if let Some(problem) = problem(configuration) {
        return Item::failed(name, format!("{text}: {problem}"), described);
    }
    let calls_a_service = webhooks.iter().any(|webhook| webhook.client_config.service.is_some());
    let place = if calls_a_service { pods } else { format!("the gateway's process and log; {described}") };
    let called = called(&facts.user_namespace);
    let untold = match &facts.trial {
        Some(Ok(Trial::Answered)) => {
            let item = Item::ok(name, format!("{text}; it answers"));
            return if replicas.is_short() { item.worsened(place) } else { item };
        }
        Some(Ok(Trial::Starts)) => {
            let text = format!("{text}; it answers, and cannot judge yet: {PASS_UNASKED}");
            return Item::warning(name, text, place);
        }
        Some(Ok(Trial::Rejected(cause))) => {
            let text = format!("{text}; the kube-apiserver cannot call it ({cause})");
            return absent(name, &text, webhooks, place);
        }
        Some(Ok(Trial::Passed)) if policy_of_evictions(webhooks) == "Ignore" => {
            let text =
                format!("{text}; it did not answer a trial call in namespace {called}: {PASS_UNASKED}");
            return Item::warning(name, text, place);
        }
        // It was not sent: under Fail a call that gets no answer is rejected.
        Some(Ok(Trial::Passed)) => {
            format!("its webhooks leave out namespace {called}, or it is older than this plugin")
        }
        Some(Err(Unread::Forbidden(right))) if right.starts_with("create ") => format!("you cannot {right}"),
        Some(Err(Unread::Forbidden(text) | Unread::Failed(text))) => {
            format!("a trial call in namespace {called} failed: {text}")
        }
        Some(Err(Unread::Absent)) => format!("there is no namespace {called} for a trial call"),
        None => "no trial call was made".to_owned(),
    };
    match replicas {
        Replicas::Counted { .. } if replicas.is_short() => Item::warning(name, text, place),
        Replicas::Counted { .. } => Item::ok(name, text),
        // The kube-apiserver calls a Service that has no replicas.
        Replicas::Elsewhere if calls_a_service => Item::warning(name, text, place),
        Replicas::Elsewhere | Replicas::Unknown(_) => Item::unknown(name, format!("{text}; {untold}")),
    }
}

/// Returns the failurePolicy of the webhook that a trial call reaches.
fn policy_of_evictions(webhooks: &[ValidatingWebhook]) -> &str {
    let mut evict = webhooks.iter().filter(|webhook| webhook.name.starts_with("evict."));
    evict.find_map(|webhook| webhook.failure_policy.as_deref()).unwrap_or("Fail")
}

/// Judges a gateway that does not answer. With failurePolicy Ignore the cluster goes on without it.
fn absent(name: &'static str, text: &str, webhooks: &[ValidatingWebhook], way_out: String) -> Item {
    if policies(webhooks) == "Ignore" {
        Item::warning(name, format!("{text}: {PASS_UNASKED}"), way_out)
    } else {
        let consequence = "calls of the webhooks with failurePolicy Fail are rejected";
        Item::failed(name, format!("{text}: {consequence}"), way_out)
    }
}

/// Judges a gateway without webhooks. Replicas whose webhooks were removed ask nobody.
fn not_installed(name: &'static str, facts: &Facts) -> Item {
    let absent = format!("there is no ValidatingWebhookConfiguration {GATEWAY_WEBHOOKS}");
    match Replicas::of_deployment(&facts.deployments, GATEWAY) {
        replicas @ Replicas::Counted { .. } => {
            let text = format!("{absent}, so that nothing is asked; {replicas}");
            Item::warning(name, text, "deploy/README.md, the part on the gateway")
        }
        _ => Item::not_installed(name, absent),
    }
}

/// Returns the reason why the kube-apiserver cannot call the gateway, if the configuration shows one.
fn problem(configuration: &ValidatingWebhookConfiguration) -> Option<&'static str> {
    let webhooks = configuration.webhooks.as_deref().unwrap_or_default();
    let mut configs = webhooks.iter().map(|webhook| &webhook.client_config);
    if configs.clone().any(|config| config.ca_bundle.as_ref().is_none_or(|ca| ca.0.is_empty())) {
        return Some("a webhook has no caBundle, so that the kube-apiserver trusts no gateway");
    }
    let has_path = |url: &str| url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    let is_pathless = configs.any(|config| match (&config.url, &config.service) {
        (Some(url), _) => !has_path(url),
        (None, service) => service.as_ref().is_none_or(|service| service.path.is_none()),
    });
    is_pathless
        .then_some("a webhook has no path: no gateway has written its token there, so that none answers")
}

fn policies(webhooks: &[ValidatingWebhook]) -> String {
    let mut policies: Vec<&str> =
        webhooks.iter().map(|webhook| webhook.failure_policy.as_deref().unwrap_or("Fail")).collect();
    policies.sort_unstable();
    policies.dedup();
    policies.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::{
        super::{super::item::State, testing, testing::check},
        *,
    };

    #[test]
    fn the_gateway_is_optional_and_its_failures_have_their_consequence() {
        let with = |webhooks| Facts { webhooks, ..testing::facts() };
        let absent = Facts { deployments: Ok(vec![]), ..with(Err(Unread::Absent)) };
        check(&gateway("gateway", &absent), State::NotInstalled, "no ValidatingWebhookConfiguration");
        let unhooked = gateway("gateway", &with(Err(Unread::Absent)));
        check(&unhooked, State::Warning, "so that nothing is asked; 2 of 2 replicas ready");
        let item = gateway("gateway", &testing::facts());
        check(&item, State::Ok, "2 webhooks, failurePolicy Ignore; 2 of 2 replicas ready; it answers");
        let down = Facts { deployments: Ok(testing::deployments(0)), ..testing::facts() };
        check(&gateway("gateway", &down), State::Warning, "0 of 2 replicas ready: calls pass unasked");
        let mut closed = down.webhooks.clone().unwrap();
        closed.webhooks.as_mut().unwrap()[0].failure_policy = None;
        let closed = Facts { webhooks: Ok(closed), ..down };
        check(&gateway("gateway", &closed), State::Failed, "with failurePolicy Fail are rejected");
        let change = |change: &dyn Fn(&mut ValidatingWebhook)| {
            let mut webhooks = testing::facts().webhooks.unwrap();
            change(&mut webhooks.webhooks.as_mut().unwrap()[0]);
            gateway("gateway", &with(Ok(webhooks)))
        };
        check(&change(&|webhook| webhook.client_config.ca_bundle = None), State::Failed, "no caBundle");
        let pathless = change(&|webhook| webhook.client_config.service.as_mut().unwrap().path = None);
        check(&pathless, State::Failed, "has no path");
        check(&change(&|webhook| webhook.failure_policy = None), State::Ok, "failurePolicy Fail and Ignore");
    }

    /// Judges a gateway that is called by a URL, with that policy of its first webhook and that trial call.
    fn outside(policy: &str, trial: Result<Trial, Unread>) -> Item {
        let mut webhooks = testing::facts().webhooks.unwrap();
        for webhook in webhooks.webhooks.as_mut().unwrap() {
            webhook.client_config.service = None;
            webhook.client_config.url = Some("https://10.0.0.1:9443/evict/token".to_owned());
        }
        webhooks.webhooks.as_mut().unwrap()[0].failure_policy = Some(policy.to_owned());
        let facts = testing::facts();
        let facts = Facts { deployments: Ok(vec![]), webhooks: Ok(webhooks), trial: Some(trial), ..facts };
        gateway("gateway", &facts)
    }

    #[test]
    fn a_gateway_outside_the_cluster_is_judged_by_a_trial_call() {
        let rejected = || Ok(Trial::Rejected("connection refused".to_owned()));
        let forbidden = |text: &str| Err(Unread::Forbidden(text.to_owned()));
        for (policy, trial, state, part) in [
            ("Ignore", Ok(Trial::Answered), State::Ok, "it answers"),
            ("Fail", Ok(Trial::Answered), State::Ok, "it answers"),
            (
                "Ignore",
                Ok(Trial::Starts),
                State::Warning,
                "it answers, and cannot judge yet: calls pass unasked",
            ),
            ("Ignore", Ok(Trial::Passed), State::Warning, "trial call in namespace shop: calls pass unasked"),
            ("Fail", Ok(Trial::Passed), State::Unknown, "its webhooks leave out namespace shop"),
            ("Fail", rejected(), State::Failed, "cannot call it (connection refused): calls of the webhooks"),
            ("Ignore", forbidden("create resource"), State::Unknown, "you cannot create resource"),
            (
                "Ignore",
                forbidden("admission webhook \"x\" denied it"),
                State::Unknown,
                "shop failed: admission",
            ),
            ("Ignore", Err(Unread::Absent), State::Unknown, "there is no namespace shop"),
        ] {
            check(&outside(policy, trial), state, part);
        }
        assert!(outside("Fail", rejected()).way_out.unwrap().starts_with("the gateway's process and log; "));
    }

    #[test]
    fn replicas_that_are_ready_and_do_not_answer_a_trial_call_are_not_ok() {
        let with = |trial, deployments| Facts { trial: Some(trial), deployments, ..testing::facts() };
        let mut facts = with(Ok(Trial::Passed), Ok(testing::deployments(2)));
        let words = "2 of 2 replicas ready; it did not answer a trial call in namespace shop: calls pass";
        check(&gateway("gateway", &facts), State::Warning, words);
        facts.webhooks.as_mut().unwrap().webhooks.as_mut().unwrap()[0].failure_policy = None;
        check(&gateway("gateway", &facts), State::Ok, "2 of 2 replicas ready");
        facts.trial = Some(Ok(Trial::Rejected("no route".to_owned())));
        check(&gateway("gateway", &facts), State::Failed, "cannot call it (no route)");
        let short = with(Ok(Trial::Answered), Ok(testing::deployments(1)));
        check(&gateway("gateway", &short), State::Warning, "1 of 2 replicas ready; it answers");
    }

    #[test]
    fn replicas_that_the_user_may_not_list_are_judged_by_the_trial_call_alone() {
        let hidden = || Err(Unread::Forbidden("list deployments".to_owned()));
        for (trial, state) in [
            (Ok(Trial::Answered), State::Ok),
            (Ok(Trial::Passed), State::Warning),
            (Err(Unread::Forbidden("create resource".to_owned())), State::Unknown),
        ] {
            let facts = Facts { deployments: hidden(), trial: Some(trial), ..testing::facts() };
            check(&gateway("gateway", &facts), state, "replicas not known: you cannot list deployments");
        }
    }
}
