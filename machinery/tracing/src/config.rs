//! The configuration file.

use std::path::{Path, PathBuf};

use machinery_merge::{DecodeError, Strictness, decode_yaml};
use machinery_validation::{FieldError, FieldPath};
use serde::Deserialize;

const KIND: &str = "TracingConfiguration";
const API_VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1"];
/// The endpoint of OTLP over gRPC where none is configured.
const DEFAULT_ENDPOINT: &str = "localhost:4317";
const MILLION: i32 = 1_000_000;

/// Configuration of traces: `apiserver.config.k8s.io/v1` TracingConfiguration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingConfig {
    /// Host and port of the collector.
    pub endpoint: String,
    /// Number of requests of a million that are sampled, if a trusted caller's trace does not decide.
    pub sampling_rate_per_million: u32,
}

/// Reason for which a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the tracing configuration {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The text is no configuration, or has unknown fields.
    #[error("the tracing configuration cannot be decoded: {0}")]
    Decode(DecodeError),
    /// It is another kind of object.
    #[error(
        "expected a TracingConfiguration of apiserver.config.k8s.io/v1, found a {kind:?} of {api_version:?}"
    )]
    Type {
        /// The `apiVersion` found.
        api_version: String,
        /// The `kind` found.
        kind: String,
    },
    /// A field has a value that is not allowed.
    #[error("the tracing configuration is invalid: {0}")]
    Invalid(FieldError),
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConfigFile {
    api_version: String,
    kind: String,
    endpoint: Option<String>,
    sampling_rate_per_million: Option<i32>,
}

impl TracingConfig {
    /// Reads a configuration from a file.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Read`], and those of [`TracingConfig::parse`].
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let text =
            std::fs::read(file).map_err(|source| ConfigError::Read { file: file.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Reads a configuration from YAML or JSON.
    ///
    /// # Errors
    ///
    /// It is not a valid configuration; the error names the field.
    pub fn parse(text: &[u8]) -> Result<Self, ConfigError> {
        let decoded = decode_yaml::<ConfigFile>(text, Strictness::Strict).map_err(ConfigError::Decode)?;
        let ConfigFile { api_version, kind, endpoint, sampling_rate_per_million } = decoded.value;
        if kind != KIND || !API_VERSIONS.contains(&api_version.as_str()) {
            return Err(ConfigError::Type { api_version, kind });
        }
        let invalid = |field: &str, value: &str, message: &str| {
            ConfigError::Invalid(FieldError::invalid(&FieldPath::new(field), value, message))
        };
        let rate = sampling_rate_per_million.unwrap_or_default();
        let rate = u32::try_from(rate).ok().filter(|_| rate <= MILLION).ok_or_else(|| {
            invalid("samplingRatePerMillion", &rate.to_string(), "must be a number from 0 to 1000000")
        })?;
        let endpoint = endpoint.unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        let host =
            endpoint.strip_prefix("dns:").map_or(endpoint.as_str(), |host| host.trim_start_matches('/'));
        if host.is_empty() || host.contains("//") || host.starts_with("unix") {
            return Err(invalid("endpoint", &endpoint, "must be a host with a port, such as localhost:4317"));
        }
        Ok(Self { endpoint: host.to_owned(), sampling_rate_per_million: rate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rest: &str) -> Result<TracingConfig, ConfigError> {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n";
        TracingConfig::parse(format!("{head}{rest}").as_bytes())
    }

    #[test]
    fn the_defaults_are_kube_apiservers() {
        let config = parse("").expect("a configuration");
        assert_eq!(
            config,
            TracingConfig { endpoint: "localhost:4317".to_owned(), sampling_rate_per_million: 0 }
        );
        let config =
            parse("endpoint: dns:///otel:4317\nsamplingRatePerMillion: 100").expect("a configuration");
        assert_eq!(
            config,
            TracingConfig { endpoint: "otel:4317".to_owned(), sampling_rate_per_million: 100 }
        );
    }

    #[test]
    fn a_configuration_that_is_wrong_is_refused_with_the_name_of_its_field() {
        let cases = [
            ("samplingRatePerMillion: -1", "samplingRatePerMillion"),
            ("samplingRatePerMillion: 1000001", "samplingRatePerMillion"),
            ("samplingRate: 1", "samplingRate"),
            ("endpoint: https://otel:4317", "endpoint"),
            ("endpoint: unix:///otel.sock", "endpoint"),
        ];
        for (rest, field) in cases {
            let error = parse(rest).expect_err(rest).to_string();
            assert!(error.contains(field), "{rest}: {error}");
        }
        let other = TracingConfig::parse(b"apiVersion: v1\nkind: Pod").expect_err("another kind").to_string();
        assert!(other.contains("Pod"), "{other}");
    }
}
