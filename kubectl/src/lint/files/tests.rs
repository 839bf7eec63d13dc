use tempfile::TempDir;

use super::*;

/// Writes files into a new directory.
fn directory(files: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for file in files {
        let path = directory.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    directory
}

/// The inputs of a directory below `root`, as the sign of the variant and the path.
fn listed(root: &Path, below: &str, recursive: bool, tools: &Tools) -> Vec<String> {
    let name = |path: &Path| path.strip_prefix(root).unwrap().display().to_string();
    let inputs = inputs(&[root.join(below)], recursive, tools).unwrap();
    let line = |input: &Input| match input {
        Input::Named(path) => format!("named {}", name(path)),
        Input::Found(path) => name(path),
        Input::Rendered(path, tool) => format!("{} {}", tool.name, name(path)),
        Input::Left(path, reason) => format!("not {}: {reason}", name(path)),
    };
    inputs.iter().map(line).collect()
}

/// Every tool, found in a PATH of its own.
#[cfg(unix)]
fn all_tools() -> Tools {
    use std::os::unix::fs::PermissionsExt;
    let path = directory(&["kustomize", "helm"]);
    for name in ["kustomize", "helm"] {
        fs::set_permissions(path.path().join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    Tools::of_path(path.path().as_os_str())
}

#[test]
fn manifests_are_read_in_the_order_of_their_names_and_directories_below_only_if_asked_for() {
    let root = directory(&["b.yml", "a.yaml", "c.json", "README.md", "sub/d.yaml", "sub/e.txt"]);
    let listed = |recursive| listed(root.path(), "", recursive, &Tools::default());
    assert_eq!(listed(false), ["a.yaml", "b.yml", "c.json"]);
    assert_eq!(listed(true), ["a.yaml", "b.yml", "c.json", "sub/d.yaml"]);
}

#[test]
fn hidden_files_and_directories_are_read_only_if_they_are_named() {
    let root = directory(&[".hidden.yaml", ".git/config.yaml", ".git/.x.yaml", "sub/.y.yaml", "web.yaml"]);
    let listed = |below| listed(root.path(), below, true, &Tools::default());
    assert_eq!(listed(""), ["web.yaml"]);
    assert_eq!(listed(".git"), [".git/config.yaml"]);
    assert_eq!(listed(".hidden.yaml"), ["named .hidden.yaml"]);
}

#[test]
fn a_directory_with_a_kustomization_is_rendered_or_else_read_without_it() {
    for name in KUSTOMIZATIONS {
        let root = directory(&[&format!("base/{name}"), "base/web.yaml", "base/sub/db.yaml"]);
        let without = listed(root.path(), "", true, &Tools::default());
        let left = format!("not base/{name}: kustomize is not on the PATH");
        assert_eq!(without, [left.as_str(), "base/sub/db.yaml", "base/web.yaml"]);
        #[cfg(unix)]
        {
            let with = |below, recursive| listed(root.path(), below, recursive, &all_tools());
            assert_eq!(with("", true), ["kustomize build base", "base/sub/db.yaml"]);
            assert_eq!(with("base", false), ["kustomize build base"]);
            assert_eq!(with("", false), Vec::<String>::new());
            fs::write(root.path().join("base").join(name), "kind: Component").unwrap();
            let component = format!("not base/{name}: a component, which overlays render");
            assert_eq!(with("base", false), [component.as_str(), "base/web.yaml"]);
        }
    }
}

#[test]
fn the_patches_of_a_kustomization_are_left_out() {
    let root = directory(&["o/kustomization.yaml", "o/web.yaml", "o/patches/web.yaml", "o/patches/db.yaml"]);
    let patches = "patches: [{path: patches/web.yaml}]\npatchesStrategicMerge: [web.yaml]";
    for kind in ["Kustomization", "Component"] {
        let text = format!("kind: {kind}\n{patches}");
        fs::write(root.path().join("o/kustomization.yaml"), text).unwrap();
        assert_eq!(
            listed(root.path(), "", true, &Tools::default()),
            [
                "not o/kustomization.yaml: kustomize is not on the PATH",
                "o/patches/db.yaml",
                "not o/patches/web.yaml: a patch of kustomize",
                "not o/web.yaml: a patch of kustomize",
            ]
        );
    }
    #[cfg(unix)]
    {
        let component = "not o/kustomization.yaml: a component, which overlays render";
        let patch = "not o/web.yaml: a patch of kustomize";
        assert_eq!(listed(root.path(), "o", false, &all_tools()), [component, patch]);
        fs::write(root.path().join("o/kustomization.yaml"), patches).unwrap();
        // They are rendered with the kustomization.
        let found = listed(root.path(), "", true, &all_tools());
        assert_eq!(found, ["kustomize build o", "o/patches/db.yaml"]);
    }
    assert_eq!(listed(root.path(), "o/web.yaml", false, &Tools::default()), ["named o/web.yaml"]);
}

#[test]
fn a_chart_is_rendered_or_else_its_templates_are_not_read() {
    let files = ["c/Chart.yaml", "c/values.yaml", "c/templates/web.yaml", "c/charts/d/Chart.yaml"];
    let root = directory(&files);
    fs::create_dir_all(root.path().join("c/charts/d/templates")).unwrap();
    let templates = "not c/templates: helm is not on the PATH";
    assert_eq!(
        listed(root.path(), "", true, &Tools::default()),
        [
            templates,
            "c/Chart.yaml",
            "not c/charts/d/templates: helm is not on the PATH",
            "c/charts/d/Chart.yaml",
            "c/values.yaml"
        ]
    );
    assert_eq!(
        listed(root.path(), "c", false, &Tools::default()),
        [templates, "c/Chart.yaml", "c/values.yaml"]
    );
    #[cfg(unix)]
    {
        fs::write(root.path().join("c/Chart.yaml"), "name: c").unwrap();
        assert_eq!(listed(root.path(), "", true, &all_tools()), ["helm template c"]);
    }
    // Either half alone is no chart.
    let halves = directory(&["a/Chart.yaml", "b/templates/web.yaml"]);
    let found = listed(halves.path(), "", true, &Tools::default());
    assert_eq!(found, ["a/Chart.yaml", "b/templates/web.yaml"]);
}

#[test]
#[cfg(unix)]
fn links_are_followed_to_files_of_the_directory_alone() {
    use std::os::unix::fs::symlink;
    let root = directory(&["top/..data/web.yaml", "outside.yaml", "other/x.yaml"]);
    let top = root.path().join("top");
    for (target, link) in [
        ("..data/web.yaml", "web.yaml"),
        ("../outside.yaml", "outside.yaml"),
        (".", "cycle"),
        (".", "cycle.yaml"),
        ("../other", "other"),
        ("/dev/zero", "zero.yaml"),
        ("nothing", "broken.yaml"),
    ] {
        symlink(target, top.join(link)).unwrap();
    }
    assert_eq!(
        listed(root.path(), "top", true, &Tools::default()),
        [
            "top/broken.yaml",
            "not top/outside.yaml: a link out of the directory",
            "top/web.yaml",
            "not top/zero.yaml: a link out of the directory",
        ]
    );
    // A link that is named is followed.
    assert_eq!(listed(root.path(), "top/other", false, &Tools::default()), ["top/other/x.yaml"]);
}

#[test]
fn a_directory_that_cannot_be_listed_is_named() {
    let error = listing(Path::new("deploy"), io::Error::from(io::ErrorKind::PermissionDenied));
    assert_eq!(error.to_string(), "directory deploy cannot be listed");
    let missing = inputs(&[PathBuf::from("/no/such/file")], true, &Tools::default()).unwrap();
    assert_eq!(missing, [Input::Named("/no/such/file".into())]);
}
