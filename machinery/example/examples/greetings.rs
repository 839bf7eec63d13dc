//! Serves the kind Greeting on loopback, without a cluster.

use std::{env, error::Error, net::TcpListener, sync::Arc};

use machinery_auth::{AlwaysAllow, Anonymous};
use machinery_server::{
    ApiError, EveryNamespace, KindInfo, Registry, RequestContext, Server, ServerOptions, Strategy, kind,
    shutdown_signal,
};
use machinery_storage::{EmbeddedOptions, EmbeddedStore};
use machinery_validation::{FieldError, FieldPath};

kind! {
    /// A greeting in some language.
    pub struct Greeting in "example.dev", "v1", "greetings", Namespaced {
        /// Words of the greeting.
        pub text: String,
        /// Language of the words; `en` by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub language: Option<String>,
    }
}

struct GreetingStrategy;

impl Strategy for GreetingStrategy {
    type Object = Greeting;

    fn info(&self) -> KindInfo {
        KindInfo { namespaced: true, singular: "greeting", short_names: &["gr"], categories: &[] }
    }

    fn has_status(&self) -> bool {
        false
    }

    fn default(&self, _: &RequestContext, greeting: &mut Greeting) {
        greeting.language.get_or_insert_with(|| "en".to_owned());
    }

    fn prepare_for_create(&self, _: &RequestContext, _: &mut Greeting) {}

    fn validate(&self, _: &RequestContext, greeting: &Greeting) -> Vec<FieldError> {
        let empty = greeting.text.is_empty();
        empty
            .then(|| FieldError::required(&FieldPath::new("text"), "a greeting has words"))
            .into_iter()
            .collect()
    }

    fn prepare_for_update(&self, _: &RequestContext, _: &mut Greeting, _: &Greeting) -> Result<(), ApiError> {
        Ok(())
    }

    fn validate_update(&self, context: &RequestContext, new: &Greeting, _: &Greeting) -> Vec<FieldError> {
        self.validate(context, new)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Arc::new(EmbeddedStore::open(EmbeddedOptions::new("greetings.redb")).await?);
    let server = Server::builder(ServerOptions { title: "Greetings".to_owned(), ..ServerOptions::default() })
        .resource(Registry::new(store, "", GreetingStrategy))
        .authenticator(Arc::new(Anonymous::everyone()))
        .authorizer(Arc::new(AlwaysAllow))
        .namespaces(Arc::new(EveryNamespace))
        .build()?;
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    Ok(server.serve(TcpListener::bind(address)?, None, shutdown_signal()?).await?)
}
