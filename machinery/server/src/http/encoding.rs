//! Encodings of replies.

use super::params::Params;
use crate::protobuf;

/// Prefixes of the header `User-Agent` of clients that people read the replies of, as upstream.
const FOR_PEOPLE: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// Encoding of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Encoding {
    #[default]
    Json,
    /// JSON with line breaks and indentation.
    PrettyJson,
    Yaml,
    /// Metadata and failures only.
    Protobuf,
}

impl Encoding {
    /// Returns the value of the header `Content-Type`.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json | Self::PrettyJson => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => protobuf::MEDIA_TYPE,
        }
    }

    /// Returns the value of the header `Content-Type` for a stream of events.
    pub(crate) fn stream_type(self) -> &'static str {
        match self {
            Self::Json | Self::PrettyJson | Self::Yaml => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }

    /// Returns the encoding with indentation if the parameter `pretty` asks for it, or else the client is one
    /// for people. Source of the rule: `isPrettyPrint` in
    /// `k8s.io/apiserver/pkg/endpoints/handlers/negotiation`.
    pub(crate) fn for_reader(self, params: &Params, user_agent: &str) -> Self {
        let pretty = match params.get("pretty") {
            Some(value) => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
            None => FOR_PEOPLE.iter().any(|prefix| user_agent.starts_with(prefix)),
        };
        if pretty && self == Self::Json { Self::PrettyJson } else { self }
    }

    /// Encodes a JSON document without building a tree of it. One for protobuf is left as it is.
    ///
    /// # Errors
    ///
    /// The bytes are not JSON.
    pub(crate) fn encode(self, json: &[u8]) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
        let mut source = serde_json::Deserializer::from_slice(json);
        let mut encoded = Vec::with_capacity(json.len() + json.len() / 2);
        match self {
            Self::Json | Self::Protobuf => encoded.extend_from_slice(json),
            Self::PrettyJson => {
                serde_transcode::transcode(&mut source, &mut serde_json::Serializer::pretty(&mut encoded))?;
                encoded.push(b'\n');
            }
            Self::Yaml => {
                encoded =
                    machinery_merge::to_yaml(&serde_transcode::Transcoder::new(&mut source))?.into_bytes();
            }
        }
        Ok(encoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_indented_for_people_and_for_clients_that_ask_for_it() {
        let cases = [
            ("", "kubectl/v1.37.1", Encoding::Json),
            ("", "curl/8.5.0", Encoding::PrettyJson),
            ("", "Mozilla/5.0 (X11)", Encoding::PrettyJson),
            ("pretty=false", "curl/8.5.0", Encoding::Json),
            ("pretty=true", "kubectl/v1.37.1", Encoding::PrettyJson),
            ("pretty=maybe", "curl/8.5.0", Encoding::Json),
        ];
        for (query, user_agent, expected) in cases {
            let params = Params::parse(query).expect("a query");
            assert_eq!(Encoding::Json.for_reader(&params, user_agent), expected, "{query} {user_agent}");
            assert_eq!(Encoding::Yaml.for_reader(&params, user_agent), Encoding::Yaml);
        }
    }

    #[test]
    fn a_document_keeps_its_fields_and_their_order() {
        let json = br#"{"kind":"Pot","apiVersion":"v1","items":[1,null,"yes"]}"#;
        let encode =
            |encoding: Encoding| String::from_utf8(encoding.encode(json).expect("JSON")).expect("text");
        let pretty = "{\n  \"kind\": \"Pot\",\n  \"apiVersion\": \"v1\",\n  \"items\": [\n    1,\n    null,\n    \"yes\"\n  ]\n}\n";
        assert_eq!(encode(Encoding::PrettyJson), pretty);
        assert_eq!(encode(Encoding::Yaml), "kind: Pot\napiVersion: v1\nitems:\n- 1\n- null\n- \"yes\"\n");
    }
}
