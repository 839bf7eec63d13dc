//! Check that no two top-level modules of a crate depend on each other, directly or through others.
//!
//! A module depends on another when a path in its files names it: `crate::other`, `super::super::other`, or
//! an item that the crate's root re-exports from it. Tests are left out.

#![expect(
    clippy::indexing_slicing,
    reason = "every index is a position that a loop over the same slice found"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use crate::tokens::{Token, tokens};

/// Crates whose modules still depend on each other in a circle.
const EXEMPT: [&str; 3] = ["machinery/openapi/src", "machinery/server/src", "tests/controlplane/src"];

/// Modules by the modules that they depend on, each with a file that names it.
type Graph = BTreeMap<String, BTreeMap<String, PathBuf>>;

/// Fails when the modules of a crate depend on each other in a circle.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let mut problems = Vec::new();
    for source in crates(root)? {
        let name = source.strip_prefix(root).unwrap_or(&source).display().to_string();
        match (find_cycle(&graph(&source)?), EXEMPT.contains(&name.as_str())) {
            (Some(cycle), false) => problems.push(format!("{name}: {cycle}")),
            (None, true) => problems.push(format!("{name}: no circle is left, so it needs no exemption")),
            (Some(_), true) | (None, false) => {}
        }
    }
    if !problems.is_empty() {
        bail!("modules depend on each other in a circle:\n{}", problems.join("\n"));
    }
    Ok(())
}

/// Returns the `src` folders of the workspace's libraries.
fn crates(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        if folder.join("src/lib.rs").is_file() {
            found.push(folder.join("src"));
        }
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if path.is_dir() && !name.starts_with('.') && !["src", "target", "docs"].contains(&name.as_str())
            {
                folders.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the dependencies between the top-level modules of one crate.
fn graph(source: &Path) -> anyhow::Result<Graph> {
    let mut files = Vec::new();
    rust_files(source, &mut files)?;
    let root = fs::read_to_string(source.join("lib.rs"))?;
    let exported = exports(&tokens(&root));
    let mut graph = Graph::new();
    for file in files {
        let relative = file.strip_prefix(source)?.to_owned();
        let Some(module) = module_of(&relative) else {
            continue;
        };
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        for name in named(&tokens(&text), module.len()) {
            let target = exported.get(&name).unwrap_or(&name);
            graph.entry(module[0].clone()).or_default().entry(target.clone()).or_insert(relative.clone());
        }
    }
    let modules: BTreeSet<String> = graph.keys().cloned().collect();
    for (module, targets) in &mut graph {
        targets.retain(|target, _| target != module && modules.contains(target));
    }
    Ok(graph)
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

/// Returns the path of a file's module. `None` for the crate's root, for binaries and for tests.
fn module_of(relative: &Path) -> Option<Vec<String>> {
    let path = relative.with_extension("");
    let mut parts: Vec<String> =
        path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    let is_test = |part: &String| part == "tests" || part == "testing" || part.ends_with("_tests");
    if parts.first().is_some_and(|first| first == "bin") || parts.iter().any(is_test) {
        return None;
    }
    parts.pop_if(|last| last == "mod");
    (parts != ["lib"] && parts != ["main"] && !parts.is_empty()).then_some(parts)
}

/// Returns the module of each name that a crate's root re-exports.
fn exports(root: &[Token]) -> BTreeMap<String, String> {
    let mut exported = BTreeMap::new();
    for (at, _) in root.iter().enumerate().filter(|(_, token)| token.is("use")) {
        let end = root[at..].iter().position(|token| token.is(";")).map_or(root.len(), |length| at + length);
        let mut words = root[at + 1..end].iter().filter_map(Token::word).filter(|word| *word != "self");
        let Some(module) = words.find(|word| *word != "crate") else {
            continue;
        };
        for word in words {
            exported.insert(word.to_owned(), module.to_owned());
        }
    }
    exported
}

/// Returns the names at the crate's root that paths in a file use. `depth` is the number of modules above the
/// root.
fn named(tokens: &[Token], depth: usize) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut at = 0;
    while at < tokens.len() {
        let starts = at == 0 || !tokens[at - 1].is("::");
        match tokens[at].word() {
            Some("crate") if starts && follows(tokens, at) => at = tree(tokens, at + 2, 0, &mut names),
            Some("super") if starts && follows(tokens, at) => {
                at = tree(tokens, at + 2, depth - 1, &mut names);
            }
            _ => at += 1,
        }
    }
    names
}

fn follows(tokens: &[Token], at: usize) -> bool {
    tokens.get(at + 1).is_some_and(|token| token.is("::"))
}

/// Reads a path, or a group of them, below a module that is `depth` modules above the root. Returns the
/// position after it.
fn tree(tokens: &[Token], at: usize, depth: usize, names: &mut BTreeSet<String>) -> usize {
    match tokens.get(at) {
        Some(token) if token.is("{") => {
            let mut at = at + 1;
            while tokens.get(at).is_some_and(|token| !token.is("}")) {
                at = tree(tokens, at, depth, names);
                at = skip_to_next(tokens, at);
            }
            at + 1
        }
        Some(token) if token.is("super") && follows(tokens, at) && depth > 0 => {
            tree(tokens, at + 2, depth - 1, names)
        }
        Some(token) => {
            if let Some(word) = token.word().filter(|_| depth == 0) {
                names.insert(word.to_owned());
            }
            at + 1
        }
        None => at,
    }
}

/// Returns the position of the next element of the group that `at` is in, or of the group's end.
fn skip_to_next(tokens: &[Token], mut at: usize) -> usize {
    let mut open = 0_usize;
    while let Some(token) = tokens.get(at) {
        match token {
            token if token.is("{") => open += 1,
            token if token.is("}") && open == 0 => return at,
            token if token.is("}") => open -= 1,
            token if token.is(",") && open == 0 => return at + 1,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Returns the first circle that is found, in words.
fn find_cycle(graph: &Graph) -> Option<String> {
    let mut done = BTreeSet::new();
    graph.keys().find_map(|module| visit(graph, module, &mut Vec::new(), &mut done))
}

fn visit<'a>(
    graph: &'a Graph,
    module: &'a str,
    path: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> Option<String> {
    if let Some(start) = path.iter().position(|known| *known == module) {
        let circle: Vec<&str> = path[start..].iter().copied().chain([module]).collect();
        let steps = circle.windows(2).map(|pair| {
            let file = graph.get(pair[0]).and_then(|targets| targets.get(pair[1]));
            let file = file.map(|file| file.display().to_string()).unwrap_or_default();
            format!("{} -> {} ({file})", pair[0], pair[1])
        });
        return Some(steps.collect::<Vec<_>>().join(", "));
    }
    if !done.insert(module) {
        return None;
    }
    path.push(module);
    let found = graph
        .get(module)
        .into_iter()
        .flat_map(BTreeMap::keys)
        .find_map(|target| visit(graph, target, path, done));
    path.pop();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, depth: usize) -> Vec<String> {
        named(&tokens(text), depth).into_iter().collect()
    }

    #[test]
    fn a_path_names_the_module_at_the_root() {
        let table: [(&str, usize, &[&str]); 8] = [
            ("use crate::a::B;", 1, &["a"]),
            ("use crate::{a::{B, c::D}, e, f as g};", 1, &["a", "e", "f"]),
            ("fn x() -> crate::a::B { crate::c::d() }", 1, &["a", "c"]),
            ("use super::a;", 1, &["a"]),
            ("use super::a;", 2, &[]),
            ("use super::{super::a::B, c};", 2, &["a"]),
            ("use super::super::a;", 2, &["a"]),
            ("// crate::a\n/* crate::b */ let s = \"crate::c\"; /// [`crate::d`]\n", 1, &[]),
        ];
        for (text, depth, expected) in table {
            assert_eq!(names(text, depth), expected, "{text}");
        }
    }

    #[test]
    fn tests_name_nothing() {
        assert_eq!(names("use crate::a;\n#[cfg(test)]\nmod tests { use crate::b; }", 1), ["a"]);
        assert_eq!(names("#[cfg(test)]\nuse crate::b;\nuse crate::a;", 1), ["a"]);
        assert_eq!(module_of(Path::new("a/tests.rs")), None);
        assert_eq!(module_of(Path::new("a/mod.rs")), Some(vec!["a".to_owned()]));
    }

    #[test]
    fn a_name_that_the_root_re_exports_stands_for_its_module() {
        let exported = exports(&tokens("mod a; pub use a::{B, C}; use self::d::E;"));
        let modules: Vec<(&str, &str)> =
            exported.iter().map(|(name, of)| (name.as_str(), of.as_str())).collect();
        assert_eq!(modules, [("B", "a"), ("C", "a"), ("E", "d")]);
    }

    #[test]
    fn a_circle_is_found_with_the_files_that_close_it() {
        let edges = |edges: &[(&str, &str)]| {
            let mut graph = Graph::new();
            for (from, to) in edges {
                graph.entry((*from).to_owned()).or_default().insert((*to).to_owned(), PathBuf::from("x.rs"));
            }
            find_cycle(&graph)
        };
        assert_eq!(edges(&[("a", "b"), ("b", "c"), ("a", "c")]), None);
        let found = edges(&[("a", "b"), ("b", "c"), ("c", "b")]);
        assert_eq!(found.as_deref(), Some("b -> c (x.rs), c -> b (x.rs)"));
    }
}
