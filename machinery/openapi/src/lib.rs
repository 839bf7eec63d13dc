//! Discovery documents and OpenAPI v2 and v3, from the resources of a server.
