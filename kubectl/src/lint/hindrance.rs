//! Reasons for which a folder is not rendered, and files in it that are parts of objects.
//!
//! A stranger may have written the folder. The tools get no plugins, no Helm inside of kustomize and no
//! network, so a folder that needs one of these is left out instead of reported.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use machinery_merge::parse_manifest;
use serde_json::Value;

/// Names of a kustomization, in kustomize's order.
pub(super) const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
/// Maximum size of a kustomization or a Chart.yaml that is looked at, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;
/// Maximum number of folders of one build, and of entries of one chart, that are looked at.
const MAX_ENTRIES: usize = 10_000;
/// Fields of a kustomization that list other folders and files.
const LISTS: [&str; 3] = ["resources", "components", "bases"];
/// Fields of a kustomization that list patches, each as a file or as an object with the `path` of one.
const PATCHES: [&str; 3] = ["patches", "patchesStrategicMerge", "patchesJson6902"];
/// Folder of the charts that a chart depends on. Helm renders them with it.
pub(super) const SUBCHARTS: &str = "charts";

/// Returns the reason for which kustomize is not run in a folder: it, or a folder that it builds on, needs
/// more than the files. `None` if nothing speaks against it.
pub(super) fn of_kustomization(folder: &Path) -> Option<&'static str> {
    let (mut waiting, mut seen) = (vec![folder.to_owned()], BTreeSet::new());
    while let Some(next) = waiting.pop() {
        let is_new = next.canonicalize().is_ok_and(|path| seen.insert(path));
        let Some(kustomization) = is_new.then(|| kustomization_of(&next)).flatten() else { continue };
        if next == folder && kustomization.get("kind").and_then(Value::as_str) == Some("Component") {
            return Some("a component, which overlays render");
        }
        if ["helmCharts", "helmChartInflationGenerator"].iter().any(|field| has_items(&kustomization, field))
        {
            return Some("needs kustomize --enable-helm");
        }
        for entry in LISTS.iter().filter_map(|list| kustomization.get(list)?.as_array()).flatten() {
            let Some(entry) = entry.as_str() else { continue };
            let path = next.join(entry);
            if path.is_dir() {
                waiting.push(path);
            } else if is_remote(entry) && !path.exists() {
                return Some("needs the network");
            }
        }
        if seen.len() >= MAX_ENTRIES {
            return Some("builds on too many folders");
        }
    }
    None
}

/// Returns the files of patches that the kustomization of a folder names in it. A patch has only some fields
/// of an object.
pub(super) fn patches_of(folder: &Path) -> Vec<PathBuf> {
    let kustomization = kustomization_of(folder).unwrap_or_default();
    let patches = PATCHES.iter().filter_map(|list| kustomization.get(list)?.as_array()).flatten();
    // The text of a patch can stand in the place of its file.
    let files = patches.filter_map(|patch| patch.get("path").unwrap_or(patch).as_str());
    let Ok(root) = folder.canonicalize() else { return Vec::new() };
    let files = files.take(MAX_ENTRIES).filter_map(|file| folder.join(file).canonicalize().ok());
    files.filter(|file| file.starts_with(&root)).collect()
}

/// Returns the reason for which Helm is not run in a folder. Helm follows links, also out of the chart.
pub(super) fn of_chart(folder: &Path) -> Option<&'static str> {
    let chart = yaml(&folder.join("Chart.yaml")).unwrap_or_default();
    if chart.get("type").and_then(Value::as_str) == Some("library") {
        return Some("a library chart");
    }
    let (mut waiting, mut count) = (vec![folder.to_owned()], 0);
    while let Some(next) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&next) else { return Some("holds a folder that cannot be listed") };
        for entry in entries {
            let Some((path, kind)) =
                entry.ok().and_then(|entry| Some((entry.path(), entry.file_type().ok()?)))
            else {
                return Some("holds a folder that cannot be listed");
            };
            count += 1;
            if kind.is_dir() {
                waiting.push(path);
            } else if !kind.is_file() {
                return Some("holds a link");
            }
            if count > MAX_ENTRIES {
                return Some("holds too many files");
            }
        }
    }
    // It has no link by now, and not too many files.
    needs_build(folder, &chart).then_some("its dependencies are not built: run helm dependency build")
}

/// Reports a chart of which a dependency is missing in its folder `charts`. Helm refuses to render it. Charts
/// of the first version list them in a file of their own.
fn needs_build(folder: &Path, chart: &Value) -> bool {
    let requirements = yaml(&folder.join("requirements.yaml")).unwrap_or_default();
    let lists = [chart, &requirements].into_iter().filter_map(|file| file.get("dependencies")?.as_array());
    let needed: BTreeSet<&str> = lists.flatten().filter_map(|entry| entry.get("name")?.as_str()).collect();
    if needed.is_empty() {
        return false;
    }
    let entries = fs::read_dir(folder.join(SUBCHARTS)).into_iter().flatten().flatten().take(MAX_ENTRIES);
    let (mut archives, mut charts) = (Vec::new(), BTreeSet::new());
    for path in entries.map(|entry| entry.path()) {
        let chart = yaml(&path.join("Chart.yaml"));
        charts.extend(chart.and_then(|chart| Some(chart.get("name")?.as_str()?.to_owned())));
        archives
            .extend(path.file_name().and_then(|file| Some(file.to_str()?.strip_suffix(".tgz")?.to_owned())));
    }
    let is_built =
        |name: &str| charts.contains(name) || archives.iter().any(|archive| is_archive(archive, name));
    !needed.into_iter().all(is_built)
}

/// Returns true for the archive `NAME-VERSION` of the chart of that name.
fn is_archive(archive: &str, name: &str) -> bool {
    let version = archive.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
    version.is_some_and(|version| version.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit()))
}

/// Reports an entry that kustomize would fetch. The caller has found no file of that name.
fn is_remote(entry: &str) -> bool {
    ["://", "?ref=", ".git//", "git@", "git::"].iter().any(|part| entry.contains(part))
        || entry.starts_with("github.com/")
        || Path::new(entry).extension().is_some_and(|end| end == "git")
}

fn has_items(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_array).is_some_and(|items| !items.is_empty())
}

fn kustomization_of(folder: &Path) -> Option<Value> {
    KUSTOMIZATIONS.iter().find_map(|name| yaml(&folder.join(name)))
}

/// Returns the content of a small file. `None` if it cannot be read: the tool reports the reason.
fn yaml(path: &Path) -> Option<Value> {
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let file = is_file.then(|| File::open(path).ok()).flatten()?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    parse_manifest(&bytes).ok().map(|parsed| parsed.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes files into a new folder.
    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn a_kustomization_that_needs_more_than_its_files_is_not_rendered() {
        for (text, expected) in [
            ("resources: [web.yaml, ../base]", None),
            ("resources: []\nhelmCharts: []", None),
            ("not: [yaml", None),
            ("kind: Component", Some("a component, which overlays render")),
            ("helmCharts: [{name: a}]", Some("needs kustomize --enable-helm")),
            ("resources: ['https://acme.io/a.yaml']", Some("needs the network")),
            ("bases: [github.com/acme/base?ref=v1]", Some("needs the network")),
            ("components: ['git@acme.io:base.git']", Some("needs the network")),
        ] {
            for name in KUSTOMIZATIONS {
                let folder = folder(&[(name, text)]);
                assert_eq!(of_kustomization(folder.path()), expected, "{name}: {text}");
            }
        }
    }

    #[test]
    fn a_base_that_needs_the_network_counts_and_a_cycle_ends() {
        let of = |base: &str| {
            let files = [("top/kustomization.yaml", "resources: [../base]"), ("base/Kustomization", base)];
            let folder = folder(&files);
            of_kustomization(&folder.path().join("top"))
        };
        assert_eq!(of("resources: ['https://acme.io/a.yaml']"), Some("needs the network"));
        assert_eq!(of("resources: [../top]"), None);
        assert_eq!(of("kind: Component"), None);
    }

    #[test]
    fn the_patches_of_a_kustomization_are_the_files_that_it_names() {
        let patches = ["a.yaml", "b.yaml", "sub/c.yaml", "d.yaml", "e.yaml"].map(|name| (name, ""));
        for (text, expected) in [
            (
                "patches: [{path: a.yaml}, {patch: 'kind: Pod'}, {path: sub/c.yaml, target: {}}]",
                vec!["a.yaml", "sub/c.yaml"],
            ),
            (
                "patches: [b.yaml]\npatchesStrategicMerge: [d.yaml, \"kind: Pod\\nmetadata: {}\"]",
                vec!["b.yaml", "d.yaml"],
            ),
            (
                "kind: Component\npatchesJson6902: [{path: e.yaml, target: {}}, {path: gone.yaml}]",
                vec!["e.yaml"],
            ),
            ("resources: [a.yaml]\npatches:", vec![]),
            ("x: &x {path: a.yaml}\npatches: [{<<: *x, target: {}}]", vec!["a.yaml"]),
            ("not: [yaml", vec![]),
        ] {
            let folder = folder(&[&patches[..], &[("kustomization.yaml", text)][..]].concat());
            let root = folder.path().canonicalize().unwrap();
            let found = patches_of(folder.path());
            let expected: Vec<PathBuf> = expected.into_iter().map(|name| root.join(name)).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_chart_whose_dependencies_are_not_built_is_not_rendered() {
        const UNBUILT: Option<&str> = Some("its dependencies are not built: run helm dependency build");
        let two = "{name: c, dependencies: [{name: redis, version: 1.x}, {name: common, alias: base}]}";
        let (redis, common) = (("charts/redis-1.2.3.tgz", ""), ("charts/x/Chart.yaml", "name: common"));
        for (chart, files, expected) in [
            ("{name: c, dependencies: []}", vec![], None),
            (two, vec![], UNBUILT),
            (two, vec![redis], UNBUILT),
            (two, vec![common], UNBUILT),
            (two, vec![redis, common], None),
            (two, vec![("charts/redis-cluster-1.0.0.tgz", ""), common], UNBUILT),
            (two, vec![("charts/redis-v1.0.0.tgz", ""), common], None),
            (two, vec![("charts/redis/values.yaml", "name: redis"), common], UNBUILT),
            ("name: c", vec![("requirements.yaml", "dependencies: [{name: redis}]")], UNBUILT),
            ("name: c", vec![("requirements.yaml", "dependencies: [{name: redis}]"), redis], None),
        ] {
            let folder = folder(&[&[("Chart.yaml", chart)][..], &files[..]].concat());
            assert_eq!(of_chart(folder.path()), expected, "{chart} {files:?}");
        }
    }

    #[test]
    fn a_library_chart_and_a_chart_with_links_are_not_rendered() {
        let template = ("templates/web.yaml", "kind: {{ .Values.kind }}");
        let application = folder(&[("Chart.yaml", "name: c"), template]);
        assert_eq!(of_chart(application.path()), None);
        let library = folder(&[("Chart.yaml", "{name: c, type: library}"), template]);
        assert_eq!(of_chart(library.path()), Some("a library chart"));
        #[cfg(unix)]
        {
            let link = application.path().join("templates/passwd.yaml");
            std::os::unix::fs::symlink("/etc/passwd", link).unwrap();
            assert_eq!(of_chart(application.path()), Some("holds a link"));
            // Helm's parser can read more than ours.
            fs::write(application.path().join("Chart.yaml"), "name: [").unwrap();
            assert_eq!(of_chart(application.path()), Some("holds a link"));
        }
    }
}
