//! The flags that limit how much callers can use of the server.

use clap::Args;
use machinery_server::{ObjectLimits, ServerOptions};

/// User of the controller that `deploy/` installs.
const CONTROLLER: &str = "system:serviceaccount:evacuation-system:evacuation-controller";

/// Maximum size of the metadata of an Evacuation or EvacuationResponder, and of its spec: what the validation
/// of a spec allows fits.
const OBJECT_BYTES: usize = 320 * 1024;

/// Limits on what callers can use of one replica, and on what is stored.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct LimitOptions {
    /// User that the server always has capacity for; can be repeated. Name the controller's user, or a burst
    /// of other requests delays deadlines. An eighth of every limit on requests is reserved for these users.
    #[arg(long = "priority-user", value_name = "USER", default_value = CONTROLLER)]
    pub priority_users: Vec<String>,
    /// Maximum number of reads in progress. One user, or pod, can have an eighth of them, the service
    /// accounts of one namespace a quarter.
    #[arg(long, default_value_t = 400, value_name = "NUMBER")]
    pub max_requests_inflight: usize,
    /// Maximum number of writes in progress, with the same shares.
    #[arg(long, default_value_t = 200, value_name = "NUMBER")]
    pub max_mutating_requests_inflight: usize,
    /// Maximum number of stored objects of one kind in one namespace, finished ones included. Of this limit
    /// and the next two, a quarter is reserved for users who act for all namespaces.
    #[arg(long, default_value_t = 5000, value_name = "NUMBER")]
    pub max_objects_per_namespace: usize,
    /// Maximum size in bytes of the stored objects of one kind in one namespace.
    #[arg(long, default_value_t = 16 * 1024 * 1024, value_name = "BYTES")]
    pub max_bytes_per_namespace: usize,
    /// Maximum number of EvacuationResponders in one namespace, within the limit on all kinds. Each creation
    /// of an Evacuation there looks at all of them.
    #[arg(long, default_value_t = 500, value_name = "NUMBER")]
    pub max_responders_per_namespace: usize,
    /// Maximum size in bytes of the EvacuationResponders in one namespace, within the limit on all kinds.
    #[arg(long, default_value_t = 2 * 1024 * 1024, value_name = "BYTES")]
    pub max_responder_bytes_per_namespace: usize,
    /// Maximum size in bytes of the stored objects of one kind. Every replica keeps them in memory.
    #[arg(long, default_value_t = 128 * 1024 * 1024, value_name = "BYTES")]
    pub max_bytes: usize,
    /// Days for which the recorded groups of a NodeEvacuationRule's user count, from the user's last write of
    /// the rule. Then only rights of the user's own name open drains.
    #[arg(long, default_value_t = 90, value_name = "DAYS")]
    pub rule_groups_days: u16,
}

impl LimitOptions {
    /// Limits on the stored objects of each kind.
    pub(crate) fn objects(&self) -> ObjectLimits {
        ObjectLimits {
            object_bytes: OBJECT_BYTES,
            namespace_objects: self.max_objects_per_namespace,
            namespace_bytes: self.max_bytes_per_namespace,
            total_bytes: self.max_bytes,
        }
    }

    /// Limits on the stored EvacuationResponders.
    pub(crate) fn responders(&self) -> ObjectLimits {
        let of_all = self.objects();
        ObjectLimits {
            namespace_objects: of_all.namespace_objects.min(self.max_responders_per_namespace),
            namespace_bytes: of_all.namespace_bytes.min(self.max_responder_bytes_per_namespace),
            ..of_all
        }
    }

    /// Options of a server with these limits on requests.
    pub(crate) fn server(self) -> ServerOptions {
        ServerOptions {
            priority_users: self.priority_users,
            max_reads_in_flight: self.max_requests_inflight,
            max_writes_in_flight: self.max_mutating_requests_inflight,
            ..ServerOptions::default()
        }
    }
}

impl Default for LimitOptions {
    /// The defaults of the flags.
    fn default() -> Self {
        Self {
            priority_users: vec![CONTROLLER.to_owned()],
            max_requests_inflight: 400,
            max_mutating_requests_inflight: 200,
            max_objects_per_namespace: 5000,
            max_bytes_per_namespace: 16 * 1024 * 1024,
            max_responders_per_namespace: 500,
            max_responder_bytes_per_namespace: 2 * 1024 * 1024,
            max_bytes: 128 * 1024 * 1024,
            rule_groups_days: 90,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        limits: LimitOptions,
    }

    #[test]
    fn the_limits_without_flags_are_the_defaults_and_a_priority_user_replaces_the_controller() {
        let parse = |arguments: &[&str]| Flags::parse_from(std::iter::once(&"x").chain(arguments)).limits;
        assert_eq!(parse(&[]), LimitOptions::default());
        assert_eq!(parse(&["--priority-user=a", "--priority-user=b"]).priority_users, ["a", "b"]);
    }
}
