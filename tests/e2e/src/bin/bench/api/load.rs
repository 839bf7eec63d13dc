//! Calls by several clients, each as soon as the one before was answered.

use std::time::Instant;

use futures::future::try_join_all;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams, PostParams},
};

use super::contestant::Contestant;

/// Number of calls of each verb that a client makes: fewer when it is alone.
const CALLS: usize = 4000;
const CALLS_ALONE: usize = 500;

/// A verb that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Create,
    Get,
    Update,
}

impl Verb {
    pub(super) const ALL: [Self; 3] = [Self::Create, Self::Get, Self::Update];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::Update => "update",
        }
    }
}

/// Rate and cost of a verb.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figure {
    /// Calls a second, of all clients together.
    pub(super) rate: f64,
    /// CPU time of the server for a call, in microseconds.
    pub(super) cpu_micros: f64,
}

/// Figures of every verb.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures([Figure; 3]);

impl Figures {
    pub(super) fn of(&self, verb: Verb) -> Figure {
        let place = Verb::ALL.iter().position(|known| *known == verb);
        place.and_then(|place| self.0.get(place)).copied().unwrap_or_default()
    }
}

/// Measures every verb with so many clients, and removes the objects.
pub(super) async fn measure(server: &Contestant, clients: usize) -> anyhow::Result<Figures> {
    let calls = if clients == 1 { CALLS_ALONE } else { CALLS };
    let apis = (0..clients).map(|_| server.api()).collect::<anyhow::Result<Vec<_>>>()?;
    // Connections are made before the clock runs.
    for api in &apis {
        api.list(&ListParams::default().limit(1)).await?;
    }
    let mut objects: Vec<Vec<DynamicObject>> = (0..clients)
        .map(|client| {
            let numbers = (client..calls).step_by(clients);
            numbers.map(|number| server.kind.object(&format!("c{clients}-{number}"), number)).collect()
        })
        .collect();
    let mut figures = Figures::default();
    for (figure, verb) in figures.0.iter_mut().zip(Verb::ALL) {
        let (began, cpu) = (Instant::now(), server.cpu()?);
        let work = apis.iter().zip(std::mem::take(&mut objects));
        objects = try_join_all(work.map(|(api, objects)| tokio::spawn(call(api.clone(), verb, objects))))
            .await?
            .into_iter()
            .collect::<anyhow::Result<_>>()?;
        #[expect(clippy::cast_precision_loss, reason = "some thousand calls")]
        let count = calls as f64;
        *figure = Figure {
            rate: count / began.elapsed().as_secs_f64(),
            cpu_micros: (server.cpu()? - cpu) * 1e6 / count,
        };
    }
    server.api()?.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    Ok(figures)
}

/// Makes one call for each object, one after the other. Returns the objects as the server answered.
async fn call(
    api: Api<DynamicObject>,
    verb: Verb,
    objects: Vec<DynamicObject>,
) -> anyhow::Result<Vec<DynamicObject>> {
    let params = PostParams::default();
    let mut answered = Vec::with_capacity(objects.len());
    for mut object in objects {
        let name = object.metadata.name.clone().unwrap_or_default();
        answered.push(match verb {
            Verb::Create => api.create(&params, &object).await?,
            Verb::Get => api.get(&name).await?,
            Verb::Update => {
                let labels = object.metadata.labels.get_or_insert_default();
                labels.insert("app".to_owned(), "changed".to_owned());
                api.replace(&name, &params, &object).await?
            }
        });
    }
    Ok(answered)
}
