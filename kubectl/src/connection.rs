//! The flags for cluster, namespace and user, as kubectl has them.

use anyhow::Context;
use clap::Args;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};

/// Cluster, namespace and user of the command.
#[derive(Args, Debug, Default)]
pub(crate) struct Connection {
    /// The kubeconfig file; KUBECONFIG or ~/.kube/config by default.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<std::path::PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long)]
    context: Option<String>,
    /// The namespace; the context's by default.
    #[arg(short, long)]
    namespace: Option<String>,
    /// The user to act as.
    #[arg(long = "as", value_name = "USER")]
    impersonate: Option<String>,
}

impl Connection {
    /// Makes a client, whose default namespace is the chosen one.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let mut config = match &self.kubeconfig {
            Some(file) => {
                let kubeconfig = Kubeconfig::read_from(file)
                    .with_context(|| format!("the kubeconfig {} cannot be read", file.display()))?;
                Config::from_custom_kubeconfig(kubeconfig, &options).await?
            }
            None if self.context.is_some() => Config::from_kubeconfig(&options).await?,
            None => Config::infer().await.context("no cluster is configured")?,
        };
        if let Some(namespace) = &self.namespace {
            config.default_namespace.clone_from(namespace);
        }
        if self.impersonate.is_some() {
            config.auth_info.impersonate.clone_from(&self.impersonate);
        }
        Ok(Client::try_from(config)?)
    }
}

/// The caller's user name, as the server knows it.
pub(crate) async fn user_name(client: &Client) -> anyhow::Result<String> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = api.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    let review = review.context("the server did not tell your user name")?;
    let user = review.status.and_then(|status| status.user_info).and_then(|user| user.username);
    user.context("the server did not tell your user name")
}
