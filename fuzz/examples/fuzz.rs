//! libFuzzer on the target that the environment variable `FUZZ_TARGET` names.

#![no_main]
#![allow(clippy::panic, reason = "without a target there is nothing to do")]

use std::sync::LazyLock;

use evacuation_fuzz::{Target, target};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    // libFuzzer's hook ends the process at every panic, also at one that the code contains. Without the hook
    // a panic that nothing contains still ends it.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| panic!("FUZZ_TARGET={name:?} names no target"))
});

fuzz_target!(|input: &[u8]| (TARGET.run)(input));
