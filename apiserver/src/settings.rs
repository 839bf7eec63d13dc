//! Settings of the cluster's administrator, from flags and from a file that can change.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use clap::Args;
use evacuation_api::{
    DeadlineAction, MAX_SETTINGS_SECONDS, NegotiationSettingsFile, validate_negotiation_settings,
};
use evacuation_protocol::NegotiationSettings;
use machinery_merge::{DecodeError, Strictness, decode_yaml};
use machinery_validation::FieldError;
use machinery_watch::follow_file;
use prometheus_client::{metrics::gauge::Gauge, registry::Registry};
use tokio_util::sync::CancellationToken;

/// Defaults of requesters and limits of responders.
#[derive(Args, Clone, Debug, Default)]
pub struct SettingsOptions {
    /// Seconds until the deadline of a requester or drain that gives none. Without the flag it has none.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i64).range(1..=MAX_SETTINGS_SECONDS))]
    pub default_deadline_seconds: Option<i64>,
    /// Action at that deadline, Evict (the default) or GiveUp.
    #[arg(long, value_name = "ACTION", value_parser = action)]
    pub default_at_deadline: Option<DeadlineAction>,
    /// Limit on the maximum total delay that a responder can register.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i64).range(0..=MAX_SETTINGS_SECONDS))]
    pub max_delay_seconds: Option<i64>,
    /// Limit on the timeout that a responder can register.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i64).range(1..=MAX_SETTINGS_SECONDS))]
    pub max_timeout_seconds: Option<i64>,
    /// File with the same settings, such as one of a ConfigMap. What it sets comes before the flags.
    /// The server reads it again every 5 s.
    #[arg(long, value_name = "FILE")]
    pub negotiation_settings_file: Option<PathBuf>,
}

fn action(text: &str) -> Result<DeadlineAction, String> {
    match text {
        "Evict" => Ok(DeadlineAction::Evict),
        "GiveUp" => Ok(DeadlineAction::GiveUp),
        _ => Err("must be Evict or GiveUp".to_owned()),
    }
}

impl SettingsOptions {
    fn of_flags(&self) -> NegotiationSettings {
        NegotiationSettings {
            default_deadline_seconds: self.default_deadline_seconds,
            default_at_deadline: self.default_at_deadline,
            max_delay_seconds: self.max_delay_seconds,
            max_timeout_seconds: self.max_timeout_seconds,
        }
    }
}

/// Reason that a file of settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The file is not YAML, or has fields that are unknown, given twice or of a wrong type.
    #[error("{} has no negotiation settings", path.display())]
    Decode {
        /// The file.
        path: PathBuf,
        /// The problem, with the field's path.
        #[source]
        source: DecodeError,
    },
    /// Fields have values that make no sense.
    #[error("{} is invalid: {}", path.display(), problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Every problem.
        problems: Vec<FieldError>,
    },
}

/// The settings in use.
#[derive(Debug, Default)]
pub struct CurrentSettings {
    of_flags: NegotiationSettings,
    current: RwLock<NegotiationSettings>,
    /// 1 while the newest file is in use, 0 while it is invalid and an older one is kept.
    valid: Gauge,
}

impl CurrentSettings {
    /// Returns settings that do not change.
    pub fn fixed(settings: NegotiationSettings) -> Arc<Self> {
        Arc::new(Self { of_flags: settings, current: RwLock::new(settings), valid: Gauge::default() })
    }

    /// Reads the file, and again every 5 s until `shutdown`. A later file that cannot be used leaves the
    /// settings as they are.
    ///
    /// # Errors
    ///
    /// The file cannot be used at the start.
    pub async fn start(
        options: &SettingsOptions,
        registry: &mut Registry,
        shutdown: CancellationToken,
    ) -> Result<Arc<Self>, SettingsError> {
        let this = Self::fixed(options.of_flags());
        this.valid.set(1);
        let help = "1 while the newest file of negotiation settings is in use, 0 while it is invalid";
        registry.register("apiserver_negotiation_settings_valid", help, this.valid.clone());
        let Some(path) = options.negotiation_settings_file.clone() else { return Ok(this) };
        let content = tokio::fs::read(&path).await;
        let content = content.map_err(|source| SettingsError::Read { path: path.clone(), source })?;
        this.take(&path, &content)?;
        let file = Arc::clone(&this);
        tokio::spawn(shutdown.run_until_cancelled_owned(async move {
            follow_file(&path, content, |content| file.change(&path, content)).await;
        }));
        Ok(this)
    }

    /// Returns the settings in use.
    pub fn get(&self) -> NegotiationSettings {
        *self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, path: &Path, content: std::io::Result<&[u8]>) {
        let content = content.map_err(|source| SettingsError::Read { path: path.to_owned(), source });
        match content.and_then(|content| self.take(path, content)) {
            Ok(()) => {
                self.valid.set(1);
                tracing::info!(file = %path.display(), settings = ?self.get(), "negotiation settings reloaded");
            }
            Err(error) => {
                self.valid.set(0);
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the new negotiation settings are not used, the old ones are kept"
                );
            }
        }
    }

    fn take(&self, path: &Path, content: &[u8]) -> Result<(), SettingsError> {
        let settings = read(path, content, self.of_flags)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = settings;
        Ok(())
    }
}

/// Returns the settings of a file over those of the flags.
fn read(
    path: &Path,
    content: &[u8],
    of_flags: NegotiationSettings,
) -> Result<NegotiationSettings, SettingsError> {
    let given = decode_yaml::<NegotiationSettingsFile>(content, Strictness::Strict)
        .map_err(|source| SettingsError::Decode { path: path.to_owned(), source })?
        .value;
    let problems = validate_negotiation_settings(&given);
    if !problems.is_empty() {
        return Err(SettingsError::Invalid { path: path.to_owned(), problems });
    }
    Ok(NegotiationSettings {
        default_deadline_seconds: given.default_deadline_seconds.or(of_flags.default_deadline_seconds),
        default_at_deadline: given.default_at_deadline.or(of_flags.default_at_deadline),
        max_delay_seconds: given.max_delay_seconds.or(of_flags.max_delay_seconds),
        max_timeout_seconds: given.max_timeout_seconds.or(of_flags.max_timeout_seconds),
    })
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    const HEAD: &str = "apiVersion: apiserver.evacuation.dev/v1alpha1\nkind: NegotiationSettings\n";

    fn settings(more: &str) -> Result<NegotiationSettings, String> {
        let of_flags = NegotiationSettings { max_timeout_seconds: Some(9), ..NegotiationSettings::default() };
        read(Path::new("s.yaml"), format!("{HEAD}{more}").as_bytes(), of_flags).map_err(|error| {
            let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            format!("{error}{cause}")
        })
    }

    #[test]
    fn the_file_comes_before_the_flags() {
        let read = settings("maxDelaySeconds: 60\ndefaultAtDeadline: GiveUp\n").expect("valid");
        assert_eq!((read.max_delay_seconds, read.max_timeout_seconds), (Some(60), Some(9)));
        assert_eq!(read.default_at_deadline, Some(DeadlineAction::GiveUp));
        assert_eq!(settings("maxTimeoutSeconds: 4\n").expect("valid").max_timeout_seconds, Some(4));
    }

    #[test]
    fn the_file_of_the_component_is_valid() {
        let file = include_bytes!("../../deploy/components/negotiation-settings/settings.yaml");
        let settings = read(Path::new("settings.yaml"), file, NegotiationSettings::default()).expect("valid");
        assert_eq!(
            (settings.default_deadline_seconds, settings.max_timeout_seconds),
            (Some(86_400), Some(300))
        );
    }

    #[test]
    fn every_mistake_is_named_with_its_field() {
        for (more, field) in [
            ("maxDelaySecond: 60\n", "maxDelaySecond"),
            ("maxDelaySeconds: -1\n", "maxDelaySeconds"),
            ("maxTimeoutSeconds: 0\n", "maxTimeoutSeconds"),
            ("maxTimeoutSeconds: soon\n", "maxTimeoutSeconds"),
            ("defaultDeadlineSeconds: 99999999999\n", "defaultDeadlineSeconds"),
            ("defaultAtDeadline: Delete\n", "defaultAtDeadline"),
        ] {
            let error = settings(more).expect_err(more);
            assert!(error.contains(field), "{more}: {error}");
        }
        let wrong =
            read(Path::new("s.yaml"), b"apiVersion: v1\nkind: ConfigMap\n", NegotiationSettings::default());
        assert!(wrong.expect_err("another kind").to_string().contains("apiVersion"));
    }

    #[tokio::test]
    async fn an_invalid_change_leaves_the_settings_and_a_missing_file_at_the_start_is_an_error() {
        let current = CurrentSettings::fixed(NegotiationSettings::default());
        let path = Path::new("s.yaml");
        let valid = format!("{HEAD}maxDelaySeconds: 60\n");
        for (content, delay, is_valid) in [(valid.as_str(), 60, 1), ("kind: x\n", 60, 0)] {
            current.change(path, Ok(content.as_bytes()));
            assert_eq!((current.get().max_delay_seconds, current.valid.get()), (Some(delay), is_valid));
        }
        let options = SettingsOptions {
            negotiation_settings_file: Some("/nowhere/s.yaml".into()),
            ..SettingsOptions::default()
        };
        let started =
            CurrentSettings::start(&options, &mut Registry::default(), CancellationToken::new()).await;
        assert!(matches!(started, Err(SettingsError::Read { .. })));
    }
}
