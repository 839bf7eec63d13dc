//! Does nothing: it is here so that cargo unpacks the protobuf compiler, a build dependency, before
//! it compiles etcd-client, which needs one (see `.cargo/protoc`).

fn main() {}
