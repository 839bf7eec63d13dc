//! A kind with two versions. A kettle of v2 has litres and may whistle; one of v1 has millilitres, and keeps
//! the whistle in an annotation.

use std::{net::TcpListener, sync::Arc};

use async_trait::async_trait;
use machinery_server::{
    Action, Admission, ApiError, ApiVersion, BuildError, Column, EveryNamespace, Kind, KindInfo, Registry,
    RequestContext, ScalePaths, ServedVersion, Server, ServerBuilder, ServerOptions, Strategy, kind,
};
use machinery_storage::Store;
use machinery_validation::{FieldError, FieldPath};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    client::Client,
    guests::{TestAuthenticator, TestAuthorizer},
    server::eventually,
};

const WHISTLE: &str = "kettles.dev/whistle";

kind! {
    /// A kettle.
    pub(crate) struct Kettle in "kettles.dev", "v2", "kettles", Namespaced {
        pub(crate) spec: KettleSpec,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) status: Option<KettleStatus>,
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct KettleSpec {
    litres: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    whistle: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    colour: Option<String>,
}

/// Numbers that a scale shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct KettleStatus {
    replicas: i32,
    selector: String,
}

mod v1 {
    use super::{Deserialize, JsonSchema, KettleStatus, Serialize, kind};

    kind! {
        /// A kettle.
        pub(crate) struct Kettle in "kettles.dev", "v1", "kettles", Namespaced {
            pub(crate) spec: KettleSpec,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub(crate) status: Option<KettleStatus>,
        }
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub(crate) struct KettleSpec {
        pub(crate) millilitres: i64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) colour: Option<String>,
    }
}

kind! {
    /// The body of `POST kettles/NAME/boil`.
    pub(crate) struct Boiling in "kettles.dev", "v2", "boilings", Namespaced {
        pub(crate) spec: BoilingSpec,
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct BoilingSpec {
    minutes: i64,
}

/// `POST kettles/NAME/boil`, which changes nothing.
struct Boil;

#[async_trait]
impl Action for Boil {
    type Body = Boiling;

    fn name(&self) -> &'static str {
        "boil"
    }

    async fn post(&self, _: &RequestContext, _: &str, body: Boiling) -> Result<Boiling, ApiError> {
        Ok(body)
    }
}

impl From<v1::Kettle> for Kettle {
    fn from(old: v1::Kettle) -> Self {
        let mut kettle = Kettle {
            metadata: old.metadata,
            spec: KettleSpec { litres: old.spec.millilitres / 1000, whistle: None, colour: old.spec.colour },
            status: old.status,
            api_version: ApiVersion::default(),
            kind: Kind::default(),
        };
        if let Some(annotations) = &mut kettle.metadata.annotations {
            kettle.spec.whistle = annotations.remove(WHISTLE).map(|whistle| whistle == "true");
        }
        kettle.metadata.annotations =
            kettle.metadata.annotations.filter(|annotations| !annotations.is_empty());
        kettle
    }
}

impl From<Kettle> for v1::Kettle {
    fn from(kettle: Kettle) -> Self {
        let mut metadata = kettle.metadata;
        if let Some(whistle) = kettle.spec.whistle {
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(WHISTLE.to_owned(), whistle.to_string());
        }
        let spec = v1::KettleSpec { millilitres: kettle.spec.litres * 1000, colour: kettle.spec.colour };
        let status = kettle.status;
        v1::Kettle { metadata, spec, status, api_version: ApiVersion::default(), kind: Kind::default() }
    }
}

/// The rules of kettles: a kettle holds a litre at least.
pub(crate) struct KettleStrategy {
    pub(crate) stored: Option<&'static str>,
    /// True when v1 is served.
    pub(crate) serves_v1: bool,
}

impl Strategy for KettleStrategy {
    type Object = Kettle;

    fn info(&self) -> KindInfo {
        KindInfo { namespaced: true, singular: "kettle", short_names: &[], categories: &[] }
    }

    fn versions(&self) -> Vec<ServedVersion<Kettle>> {
        if self.serves_v1 { vec![ServedVersion::of::<v1::Kettle>()] } else { Vec::new() }
    }

    fn stored_version(&self) -> Option<&'static str> {
        self.stored
    }

    fn scale(&self, version: &str) -> Option<ScalePaths> {
        let spec_replicas = if version == "v1" { "spec.millilitres" } else { "spec.litres" };
        Some(ScalePaths { spec_replicas, ..ScalePaths::STANDARD })
    }

    fn has_status(&self) -> bool {
        false
    }

    fn prepare_for_create(&self, _: &RequestContext, _: &mut Kettle) {}

    fn validate(&self, _: &RequestContext, kettle: &Kettle) -> Vec<FieldError> {
        let litres = FieldPath::new("spec").child("litres");
        let small = kettle.spec.litres < 1;
        small
            .then(|| FieldError::invalid(&litres, &kettle.spec.litres.to_string(), "must hold a litre"))
            .into_iter()
            .collect()
    }

    fn prepare_for_update(&self, _: &RequestContext, _: &mut Kettle, _: &Kettle) -> Result<(), ApiError> {
        Ok(())
    }

    fn validate_update(&self, context: &RequestContext, kettle: &Kettle, _: &Kettle) -> Vec<FieldError> {
        self.validate(context, kettle)
    }

    fn columns(&self) -> &'static [Column] {
        &[Column { name: "Litres", column_type: "integer", format: "", description: "", priority: 0 }]
    }

    fn cells(&self, kettle: &Kettle) -> Vec<Value> {
        vec![json!(kettle.spec.litres)]
    }
}

/// A running server of kettles. It ends when it is dropped.
pub(crate) struct KettleServer {
    pub(crate) client: Client,
    pub(crate) kettles: Arc<Registry<KettleStrategy>>,
    shutdown: CancellationToken,
}

impl KettleServer {
    fn builder(kettles: &Arc<Registry<KettleStrategy>>) -> ServerBuilder {
        Server::builder(ServerOptions { workers: 1, ..ServerOptions::default() })
            .resource(kettles.clone())
            .action("kettles", Arc::new(Boil))
            .authenticator(Arc::new(TestAuthenticator))
            .authorizer(Arc::new(TestAuthorizer))
            .namespaces(Arc::new(EveryNamespace))
    }

    /// Builds a server of kettles that does not listen yet.
    pub(crate) fn build(kettles: &Arc<Registry<KettleStrategy>>) -> Result<Server, BuildError> {
        Self::builder(kettles).build()
    }

    pub(crate) async fn open(store: Arc<dyn Store>, strategy: KettleStrategy) -> Self {
        Self::admitting(store, strategy, None).await
    }

    pub(crate) async fn admitting(
        store: Arc<dyn Store>,
        strategy: KettleStrategy,
        admission: Option<Arc<dyn Admission>>,
    ) -> Self {
        let kettles = Registry::new(store, "/registry", strategy);
        let mut server = Self::builder(&kettles);
        if let Some(admission) = admission {
            server = server.admission(admission);
        }
        let server = server.build().expect("a server");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let shutdown = CancellationToken::new();
        tokio::spawn(server.serve(listener, None, shutdown.clone()));
        let client = Client::new(&url, "cook");
        eventually("the server is ready", || async { client.get("/readyz").await.code == 200 }).await;
        Self { client, kettles, shutdown }
    }
}

impl Drop for KettleServer {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}
