//! The flags that replace parts of a kubeconfig, as kubectl has them.

use std::{
    fmt::{Debug, Formatter},
    path::PathBuf,
};

use anyhow::Context;
use clap::{ArgAction, Args};
use http::Uri;
use kube::{Config, config::AuthInfo};
use serde_json::json;

/// Parts of the configuration that the command line replaces.
#[derive(Args, Debug, Default)]
pub(super) struct Overrides {
    /// The address of the server, such as https://10.0.0.1:6443; that of the kubeconfig's cluster by default.
    #[arg(short, long, value_name = "URL", value_parser = address, hide_short_help = true)]
    pub(super) server: Option<Uri>,
    /// The user of the kubeconfig; the context's by default.
    #[arg(long, value_name = "USER", hide_short_help = true)]
    pub(super) user: Option<String>,
    /// A bearer token, instead of the user's credentials.
    #[arg(long, hide_short_help = true)]
    token: Option<Token>,
    /// File with the certificates of the authorities that sign the server's.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    certificate_authority: Option<PathBuf>,
    /// Name in the server's certificate; that in its address by default.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    tls_server_name: Option<String>,
    /// Trust any certificate of the server. Others can then read and change what is sent.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", hide_default_value = true, hide_possible_values = true,
          hide_short_help = true, conflicts_with = "certificate_authority")]
    insecure_skip_tls_verify: bool,
    /// File with the certificate of the user.
    #[arg(long, value_name = "FILE", hide_short_help = true, requires = "client_key")]
    client_certificate: Option<PathBuf>,
    /// File with the key of that certificate.
    #[arg(long, value_name = "FILE", hide_short_help = true, requires = "client_certificate")]
    client_key: Option<PathBuf>,
}

/// A bearer token, which no message shows.
#[derive(Clone)]
struct Token(String);

impl From<String> for Token {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Debug for Token {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Overrides {
    /// Replaces those parts of a configuration.
    pub(super) fn apply(&self, config: &mut Config) -> anyhow::Result<()> {
        if let Some(server) = &self.server {
            config.cluster_url.clone_from(server);
        }
        if let Some(file) = &self.certificate_authority {
            config.root_cert = None;
            config.root_cert_file = Some(file.clone());
            config.accept_invalid_certs = false;
        }
        if self.tls_server_name.is_some() {
            config.tls_server_name.clone_from(&self.tls_server_name);
        }
        if self.insecure_skip_tls_verify {
            config.accept_invalid_certs = true;
        }
        if let Some(Token(token)) = &self.token {
            config.auth_info = bearer(token)?;
        }
        if let (Some(certificate), Some(key)) = (&self.client_certificate, &self.client_key) {
            let auth = &mut config.auth_info;
            (auth.client_certificate_data, auth.client_key_data) = (None, None);
            auth.client_certificate = Some(certificate.display().to_string());
            auth.client_key = Some(key.display().to_string());
        }
        Ok(())
    }
}

/// Returns the credentials of a bearer token. Nothing of another identity remains, such as a certificate.
pub(crate) fn bearer(token: &str) -> anyhow::Result<AuthInfo> {
    serde_json::from_value(json!({"token": token})).context("the token cannot be used")
}

/// Reads the address of a server.
fn address(text: &str) -> Result<Uri, String> {
    let is_whole = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    let uri = text.parse().ok().filter(is_whole);
    uri.ok_or_else(|| "an address has the form https://HOST:PORT".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Command {
        #[command(flatten)]
        overrides: Overrides,
    }

    fn parse(arguments: &[&str]) -> Result<Overrides, String> {
        let all = ["command"].iter().chain(arguments);
        Command::try_parse_from(all).map(|command| command.overrides).map_err(|error| error.to_string())
    }

    /// A configuration with every part, after these flags.
    fn applied(arguments: &[&str]) -> Config {
        let mut config = Config::new("https://before:6443".parse().unwrap());
        config.root_cert = Some(vec![vec![1]]);
        config.auth_info.client_certificate_data = Some("data".to_owned());
        parse(arguments).unwrap().apply(&mut config).unwrap();
        config
    }

    #[test]
    fn a_flag_replaces_its_part_and_no_other() {
        let same = applied(&[]);
        assert_eq!(same.cluster_url.to_string(), "https://before:6443/");
        assert_eq!(same.auth_info.client_certificate_data.as_deref(), Some("data"));
        assert!(same.root_cert.is_some() && !same.accept_invalid_certs);

        assert_eq!(applied(&["-s", "https://x:1"]).cluster_url.to_string(), "https://x:1/");
        assert_eq!(applied(&["--tls-server-name=y"]).tls_server_name.as_deref(), Some("y"));
        assert!(applied(&["--insecure-skip-tls-verify"]).accept_invalid_certs);
        assert!(!applied(&["--insecure-skip-tls-verify=false"]).accept_invalid_certs);
        let trusted = applied(&["--certificate-authority=ca.crt"]);
        assert_eq!((trusted.root_cert, trusted.root_cert_file), (None, Some("ca.crt".into())));
        let token = applied(&["--token=secret"]).auth_info;
        assert!(token.token.is_some() && token.client_certificate_data.is_none());
        let certificate = applied(&["--client-certificate=c.crt", "--client-key=c.key"]).auth_info;
        assert_eq!(certificate.client_certificate.as_deref(), Some("c.crt"));
        assert_eq!(certificate.client_key.as_deref(), Some("c.key"));
        assert!(certificate.client_certificate_data.is_none());
    }

    #[test]
    fn flags_that_mean_nothing_are_refused() {
        for (arguments, expected) in [
            (&["--server=10.0.0.1"][..], "https://HOST:PORT"),
            (&["--server=ftp://x"], "https://HOST:PORT"),
            (&["--client-key=c.key"], "--client-certificate"),
            (&["--insecure-skip-tls-verify", "--certificate-authority=ca.crt"], "--certificate-authority"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(expected), "{expected} is not in {error}");
        }
    }

    #[test]
    fn a_token_is_in_no_message() {
        assert!(!format!("{:?}", parse(&["--token=secret"]).unwrap()).contains("secret"));
    }
}
