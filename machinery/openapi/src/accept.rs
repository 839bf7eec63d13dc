//! Media types that a client accepts: the part of RFC 9110's `Accept` that discovery needs.

/// The one of the offered media types (with their parameters, as in `Content-Type`) that the client prefers:
/// the highest `q`, then the first in the header; for an empty header the last one offered.
///
/// A range that names a group and a kind (`g`, `v`, `as`) matches only the type with the same three;
/// parameters besides these, such as a `profile`, are left aside, as kube-apiserver does.
pub(crate) fn preferred<'a>(header: &str, offered: &[&'a str]) -> Option<&'a str> {
    if header.trim().is_empty() {
        return offered.last().copied();
    }
    offered
        .iter()
        .filter_map(|offer| {
            rank(header, offer).map(|(quality, place)| (quality, std::cmp::Reverse(place), *offer))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
        .map(|(_, _, offer)| offer)
}

/// The quality and the place in the header of the best range that matches.
fn rank(header: &str, media_type: &str) -> Option<(f32, usize)> {
    let offer = Range::parse(media_type);
    header
        .split(',')
        .map(Range::parse)
        .enumerate()
        .filter(|(_, range)| range.quality > 0.0 && range.matches(&offer))
        .map(|(place, range)| (range.quality, place))
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))
}

struct Range<'a> {
    name: &'a str,
    /// `g`, `v` and `as`: which kind, in which group and version.
    convert_to: [Option<&'a str>; 3],
    quality: f32,
}

impl<'a> Range<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut range = Self { name: parts.next().unwrap_or_default(), convert_to: [None; 3], quality: 1.0 };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            let [group, version, kind] = &mut range.convert_to;
            match key.trim() {
                "g" => *group = Some(value.trim()),
                "v" => *version = Some(value.trim()),
                "as" => *kind = Some(value.trim()),
                // A quality that cannot be read counts as none.
                "q" => range.quality = value.trim().parse().unwrap_or(1.0),
                _ => {}
            }
        }
        range
    }

    fn matches(&self, offer: &Range<'_>) -> bool {
        let (kind, subtype) = self.name.split_once('/').unwrap_or((self.name, "*"));
        let (offer_kind, offer_subtype) = offer.name.split_once('/').unwrap_or((offer.name, ""));
        (kind == "*" || kind.eq_ignore_ascii_case(offer_kind))
            && (subtype == "*" || subtype.eq_ignore_ascii_case(offer_subtype))
            && self.convert_to == offer.convert_to
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DiscoveryVersion, JSON};

    #[test]
    fn discovery_is_what_the_client_prefers_of_what_is_served() {
        let v2 = DiscoveryVersion::V2.media_type();
        let v2beta1 = DiscoveryVersion::V2Beta1.media_type();
        let offered = [v2, v2beta1, JSON];
        let kubectl = format!("{v2},application/json");
        let older_kubectl = format!("{v2},{v2beta1},application/json");
        let oldest = format!("{v2beta1},application/json");
        let no_peers = format!("{v2};profile=nopeer,{v2},application/json");
        let reordered = "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io";
        for (accept, expected) in [
            ("", Some(JSON)),
            ("*/*", Some(JSON)),
            ("application/json", Some(JSON)),
            ("application/*;q=0.5", Some(JSON)),
            ("application/vnd.kubernetes.protobuf, application/json", Some(JSON)),
            ("application/vnd.kubernetes.protobuf", None),
            ("application/json;q=0", None),
            (&kubectl, Some(v2)),
            (&older_kubectl, Some(v2)),
            (&oldest, Some(v2beta1)),
            (&no_peers, Some(v2)),
            (reordered, Some(v2)),
            ("application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList", None),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;q=0.1,application/json",
                Some(JSON),
            ),
        ] {
            assert_eq!(preferred(accept, &offered), expected, "{accept}");
        }
    }
}
