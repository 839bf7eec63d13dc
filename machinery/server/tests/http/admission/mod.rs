//! Plugins of admission in the writes of a server.

mod calls;
mod changes;
mod denials;
mod guard;

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const A: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a";
