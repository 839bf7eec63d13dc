//! kubectl 1.32, built from its Go module.

use controlplane::GoTool;

/// kubectl 1.32, and its library for drains: `drain-library NODE TIMEOUT`.
pub const KUBECTL_1_32: GoTool = GoTool {
    name: "kubectl-1.32",
    package: ".",
    module: None,
    toolchain: None,
    linker_flags: Some(
        "-s -w -X k8s.io/component-base/version.gitVersion=v1.32.0 \
         -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=32",
    ),
    files: &[
        ("go.mod", include_str!("../callers/kubectl-1.32/go.mod")),
        ("go.sum", include_str!("../callers/kubectl-1.32/go.sum")),
        ("main.go", include_str!("../callers/kubectl-1.32/main.go")),
    ],
};
