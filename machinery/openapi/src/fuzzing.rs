//! Entrances for a fuzzer: private parsers of what clients send. No part of the API.

#![allow(clippy::missing_panics_doc, reason = "a property that does not hold is a panic")]

use crate::{DiscoveryVersion, JSON, accept::preferred};

/// Reads the header `Accept` of discovery. What is preferred was offered, and a last choice of anything finds
/// something to serve.
pub fn discovery_accept(header: &str) {
    let offered = [DiscoveryVersion::V2.media_type(), DiscoveryVersion::V2Beta1.media_type(), JSON];
    let found = preferred(header, &offered);
    assert!(found.is_none_or(|found| offered.contains(&found)), "{header}");
    if !header.trim().is_empty() {
        let last = preferred(&format!("{header},*/*;q=0.0001"), &offered);
        assert!(last.is_some(), "{header}");
    }
}
