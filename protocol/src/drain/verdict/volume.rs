//! Volumes that cannot be attached to the node of a pod.

use chrono::{DateTime, Utc};

/// A volume that cannot be attached to the node of a pod, as an Event of the attach/detach controller or of
/// the kubelet tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachFailure {
    /// UID of the pod that waits for the volume.
    pub pod_uid: String,
    /// Message of the Event, such as `Multi-Attach error for volume "pvc-1" Volume is already used by pod(s)
    /// db-0`.
    pub message: String,
    /// Time of the first Event.
    pub since: DateTime<Utc>,
}

impl AttachFailure {
    /// Returns the name of the PersistentVolume, which the message has in quotation marks.
    pub fn volume(&self) -> Option<&str> {
        volume_in(&self.message)
    }
}

/// Returns the name of the PersistentVolume that the message of an Event has in quotation marks.
pub fn volume_in(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("for volume \"")?;
    let (name, _) = rest.split_once('"')?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_volume_is_named_in_the_message() {
        for (message, expected) in [
            (r#"Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) db-0"#, Some("pvc-1")),
            (r#"AttachVolume.Attach failed for volume "pv" : rpc error: code = Internal"#, Some("pv")),
            ("AttachVolume.Attach failed", None),
            (r#"for volume """#, None),
            (r#"for volume "open"#, None),
        ] {
            assert_eq!(volume_in(message), expected, "{message}");
        }
    }
}
