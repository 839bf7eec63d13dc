//! Every document of a server, made once and found by path.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    DiscoveryVersion, Document, DocumentError, JSON, ServedGroup, accept, api_group,
    api_group_discovery_list, api_group_list, api_resource_list, openapi_v2, openapi_v3, openapi_v3_index,
};

/// Title and version of the server in the OpenAPI documents.
#[derive(Clone, Debug)]
pub struct Info {
    /// The title, such as `Pot API`.
    pub title: String,
    /// The server's version.
    pub version: String,
}

/// Every discovery and OpenAPI document of a server. They never change.
#[derive(Clone, Debug)]
pub struct Documents {
    /// By path; where one path has several, the plain one is the last.
    by_path: BTreeMap<String, Vec<Document>>,
}

impl Documents {
    /// Makes the documents of a server that serves these groups.
    ///
    /// # Errors
    ///
    /// A schema says what Kubernetes' OpenAPI cannot say, two schemas have one name, or a kind has no schema.
    /// A keyword of a kind, such as a pattern, is not valid, or its objects cannot be merged. All of these
    /// are mistakes in the description, so a server finds them when it starts and not when it is asked.
    pub fn new(info: &Info, groups: &[ServedGroup]) -> Result<Self, DocumentError> {
        let mut documents = Self { by_path: BTreeMap::new() };
        for version in [DiscoveryVersion::V2, DiscoveryVersion::V2Beta1] {
            documents.add("/apis", version.media_type(), &api_group_discovery_list(groups, version))?;
        }
        documents.add("/apis", JSON, &api_group_list(groups))?;
        let mut index = Vec::new();
        for group in groups {
            documents.add(&format!("/apis/{}", group.group), JSON, &api_group(group))?;
            for version in &group.versions {
                let path = format!("apis/{}/{}", group.group, version.version);
                documents.add(&format!("/{path}"), JSON, &api_resource_list(group, version))?;
                let document = documents.add(
                    &format!("/openapi/v3/{path}"),
                    JSON,
                    &openapi_v3(info, group, version)?,
                )?;
                index.push((path, document));
            }
        }
        let index = openapi_v3_index(index.iter().map(|(path, document)| (path.as_str(), document)));
        documents.add("/openapi/v3", JSON, &index)?;
        documents.add("/openapi/v2", JSON, &openapi_v2(info, groups)?)?;
        Ok(documents)
    }

    /// The document at that path for that `Accept` header, empty when there is none. A slash at the end of
    /// the path does not count.
    ///
    /// The paths are `/apis`, `/apis/GROUP`, `/apis/GROUP/VERSION`, `/openapi/v2`, `/openapi/v3` and
    /// `/openapi/v3/apis/GROUP/VERSION`. At `/apis` are aggregated discovery, for those who ask for it, and
    /// the plain list: replies carry `Vary: Accept`.
    ///
    /// `None` means 404 when [`Documents::has`] does not know the path either, else 406.
    pub fn find(&self, path: &str, accept: &str) -> Option<&Document> {
        let documents = self.by_path.get(path.trim_end_matches('/'))?;
        let offered: Vec<&str> = documents.iter().map(Document::content_type).collect();
        let chosen = accept::preferred(accept, &offered)?;
        documents.iter().find(|document| document.content_type() == chosen)
    }

    /// True if there is any document at that path.
    pub fn has(&self, path: &str) -> bool {
        self.by_path.contains_key(path.trim_end_matches('/'))
    }

    /// The paths at which there are documents.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.by_path.keys().map(String::as_str)
    }

    fn add(
        &mut self,
        path: &str,
        content_type: &'static str,
        value: &impl Serialize,
    ) -> Result<Document, DocumentError> {
        let document = Document::new(content_type, value)
            .map_err(|source| DocumentError::Json { path: path.to_owned(), source })?;
        self.by_path.entry(path.to_owned()).or_default().push(document.clone());
        Ok(document)
    }
}
