//! `kubectl create evacuation POD...`

use std::time::Duration;

use anyhow::{Context, bail};
use clap::{ArgAction, Parser, builder::NonEmptyStringValueParser};
use evacuation_api::{Evacuation, PodTarget};
use evacuation_client::Requester;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::ListParams};

use crate::{
    Exit,
    complaint::{complaint, is_outage, with_rest},
    connection::NamespacedConnection,
    dry_run::{DryRun, DryRunFlag},
    duration::timeout,
    output::{Output, is_unread, render, say, warn},
    pod_name::pod_name,
    progress,
    requester_flags::{OnRefusal, RequesterFlags, name_part},
    screen::Lines,
    tracker::Tracker,
};

/// Ask pods to move. If a pod is already asked, your request is added.
#[derive(Parser, Debug)]
#[command(name = "kubectl create evacuation", bin_name = "kubectl create evacuation", version)]
pub struct Create {
    /// Names of pods, also as pod/NAME, which `kubectl get -o name` prints.
    #[arg(
        value_name = "POD",
        required_unless_present = "selector",
        conflicts_with = "selector",
        value_parser = pod_name
    )]
    pods: Vec<String>,
    /// Ask all pods with these labels.
    #[arg(short = 'l', long, value_parser = NonEmptyStringValueParser::new())]
    selector: Option<String>,
    /// Consequence of a refusal; wait by default.
    #[arg(long, value_enum, ignore_case = true)]
    on_refusal: Option<OnRefusal>,
    #[command(flatten)]
    requester: RequesterFlags,
    /// Wait until every evacuation has ended: exit code 0 if all pods are gone, 2 if one was refused.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", hide_default_value = true, hide_possible_values = true)]
    wait: bool,
    /// With --wait: stop waiting after this time, with exit code 3; 0 means never. The evacuations continue.
    #[arg(long, value_name = "DURATION", value_parser = timeout, requires = "wait")]
    timeout: Option<Duration>,
    #[command(flatten)]
    dry_run: DryRunFlag,
    /// Output format of the created evacuations.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    connection: NamespacedConnection,
}

impl Create {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// The cluster cannot be reached, or no pod matches. An error with a single pod is printed, and the
    /// others are still asked. If no server replies, the others are named and not asked.
    pub async fn run(self) -> anyhow::Result<Exit> {
        let client = self.connection.client().await?;
        let namespace = client.default_namespace().to_owned();
        let name = |user: &str| format!("kubectl.evacuation.dev/{}", name_part(user));
        if let Some(warning) = self.requester.warning() {
            eprintln!("warning: {warning}");
        }
        let requester = self.requester.requester(&client, self.on_refusal, name).await?;
        let dry_run = self.dry_run.dry_run;
        let requester = if dry_run == DryRun::Server { requester.dry_run() } else { requester };
        let mut tracker = Tracker::default();
        let pods = self.pods(&client).await?;
        let failed = self.ask_all(&requester, &namespace, &pods, &mut tracker).await?;
        let exit = if self.wait && dry_run == DryRun::None {
            // Standard output is for the objects, when they were asked for.
            let lines = if self.output.is_some() { Lines::Errors } else { Lines::Output };
            let api = Api::namespaced(client, &namespace);
            progress::wait(api, tracker, self.timeout, lines, &self.connection.outages()).await?
        } else {
            Exit::Done
        };
        Ok(if failed { Exit::Errors } else { exit })
    }

    /// Asks one pod after the other, until a server does not reply: nothing is created after that error.
    /// Returns true when a pod was not asked.
    async fn ask_all(
        &self,
        requester: &Requester,
        namespace: &str,
        pods: &[PodTarget],
        tracker: &mut Tracker,
    ) -> anyhow::Result<bool> {
        let mut failed = false;
        for (at, pod) in pods.iter().enumerate() {
            match self.ask(requester, namespace, pod).await {
                Ok(Some(evacuation)) => drop(tracker.follow(&evacuation)),
                Ok(None) => {}
                Err(error) if is_unread(&error) => return Err(error),
                Err(error) if is_outage(&error) => {
                    let rest = pods.iter().skip(at + 1).map(|pod| &pod.name);
                    warn(format_args!("error: {}", complaint(&with_rest(error, "asked", rest))));
                    return Ok(true);
                }
                Err(error) => {
                    failed = true;
                    eprintln!("error: {}", complaint(&error));
                }
            }
        }
        Ok(failed)
    }

    /// The pods to ask. Pods that were found by labels are asked by UID.
    async fn pods(&self, client: &Client) -> anyhow::Result<Vec<PodTarget>> {
        let Some(selector) = &self.selector else {
            let named = |name: &String| PodTarget { name: name.clone(), uid: None };
            return Ok(self.pods.iter().map(named).collect());
        };
        let api: Api<Pod> = Api::default_namespaced(client.clone());
        let pods = api.list(&ListParams::default().labels(selector)).await;
        let pods = pods.with_context(|| format!("pods with labels {selector:?} cannot be listed"))?;
        if pods.items.is_empty() {
            bail!("no pod in namespace {} has the labels {selector:?}", client.default_namespace());
        }
        Ok(pods.items.iter().map(target).collect())
    }

    /// Asks one pod and prints the result. A dry run returns nothing to follow.
    async fn ask(
        &self,
        requester: &Requester,
        namespace: &str,
        pod: &PodTarget,
    ) -> anyhow::Result<Option<Evacuation>> {
        let dry_run = self.dry_run.dry_run;
        let print = |evacuation: &Evacuation, what: &str| -> anyhow::Result<()> {
            let what = format!("{what}{}", dry_run.note());
            Ok(say(render(evacuation, self.output, &what)?)?)
        };
        if dry_run == DryRun::Client {
            let mut evacuation = requester.manifest(namespace, &pod.name);
            evacuation.spec.target.pod = pod.clone();
            print(&evacuation, "created")?;
            return Ok(None);
        }
        let evacuation = requester.evacuate_target(namespace, pod).await?;
        print(evacuation.object(), if evacuation.joined() { "joined" } else { "created" })?;
        Ok((dry_run == DryRun::None).then(|| evacuation.object().clone()))
    }
}

/// The target with the UID of the pod.
fn target(pod: &Pod) -> PodTarget {
    PodTarget { name: pod.name_any(), uid: pod.uid() }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
    };

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// Asks three pods through an API that replies to each request with that code. Returns the pods of the
    /// requests that it had.
    async fn asked(code: u16) -> (bool, Vec<String>) {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let record = sent.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let record = record.clone();
            async move {
                let body = request.into_body().collect_bytes().await.unwrap();
                let body: Value = serde_json::from_slice(&body).unwrap();
                record
                    .lock()
                    .unwrap()
                    .push(body["spec"]["target"]["pod"]["name"].as_str().unwrap().to_owned());
                let status = json!({"kind": "Status", "status": "Failure", "message": "no", "reason": "x", "code": code});
                let reply =
                    Response::builder().status(code).body(Body::from(status.to_string().into_bytes()));
                Ok::<_, Infallible>(reply.unwrap())
            }
        });
        let requester = Requester::new(Client::new(service, "shop"), "kubectl.evacuation.dev/ann");
        let create = Create::try_parse_from(["c", "a", "b", "c"]).unwrap();
        let pods: Vec<_> =
            create.pods.iter().map(|name| PodTarget { name: name.clone(), uid: None }).collect();
        let failed = create.ask_all(&requester, "shop", &pods, &mut Tracker::default()).await.unwrap();
        let sent = sent.lock().unwrap().clone();
        (failed, sent)
    }

    #[tokio::test]
    async fn after_an_outage_no_other_pod_is_asked() {
        assert_eq!(asked(503).await, (true, vec!["a".to_owned()]));
        assert_eq!(asked(422).await, (true, ["a", "b", "c"].map(str::to_owned).to_vec()), "a refusal");
    }

    #[test]
    fn a_switch_takes_true_and_false_and_a_timeout_needs_it() {
        for (arguments, expected) in [
            (&["c", "db-0", "--wait"][..], Some(true)),
            (&["c", "db-0", "--wait=true", "--timeout=1m"], Some(true)),
            (&["c", "db-0", "--wait=false"], Some(false)),
            (&["c", "db-0"], Some(false)),
            (&["c", "db-0", "--timeout=1m"], None),
        ] {
            let parsed = Create::try_parse_from(arguments).ok().map(|create| create.wait);
            assert_eq!(parsed, expected, "{arguments:?}");
        }
    }

    #[test]
    fn a_pod_that_was_found_by_labels_is_asked_with_its_uid() {
        let mut pod = Pod::default();
        pod.metadata.name = Some("db-0".to_owned());
        pod.metadata.uid = Some("P".to_owned());
        let target = target(&pod);
        assert_eq!((target.name.as_str(), target.uid.as_deref()), ("db-0", Some("P")));
    }
}
