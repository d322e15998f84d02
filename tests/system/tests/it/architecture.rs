//! The project's testable rules: dependencies between packages, and the form of source files.

mod bodies;
mod names;
mod parsers;
mod test_code;
mod vendors;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use cargo_metadata::{Dependency, DependencyKind, Metadata, MetadataCommand, Package};
use satchel_system::real_binary::workspace_root;

use self::{
    names::{ProductionFile, production_files},
    vendors::{FOUNDATIONS, VENDOR_HOMES},
};

/// The workspace crates that each crate under `crates/` may depend on.
const ALLOWED_DEPENDENCIES: [(&str, &[&str]); 12] = [
    ("satchel-domain", &[]),
    ("satchel-calendar", &["satchel-domain"]),
    ("satchel-ports", &["satchel-domain"]),
    ("satchel-ledger", &["satchel-domain", "satchel-ports"]),
    ("satchel-intake", &["satchel-domain", "satchel-ports", "satchel-calendar"]),
    ("satchel-markup", &[]),
    ("satchel-routing", &["satchel-domain", "satchel-markup", "satchel-ports"]),
    ("satchel-yaml", &[]),
    ("satchel-attachments", &["satchel-domain", "satchel-ports", "satchel-yaml"]),
    ("satchel-tools", &["satchel-domain", "satchel-ports", "satchel-attachments", "satchel-calendar"]),
    (
        "satchel-agent",
        &["satchel-domain", "satchel-ports", "satchel-attachments", "satchel-calendar", "satchel-routing"],
    ),
    (
        "satchel-runtime",
        &["satchel-domain", "satchel-ports", "satchel-agent", "satchel-calendar", "satchel-intake", "satchel-routing"],
    ),
];

/// Additional packages for the tests of one crate under `crates/`. Lanes, schedules and retention promise what only a
/// real ledger can break: who holds a lease, what is stored once, what a killed process leaves behind.
const CRATE_TEST_DEPENDENCIES: [(&str, &[&str]); 1] =
    [("satchel-runtime", &["satchel-files", "satchel-ledger-sqlite", "satchel-local", "satchel-wait", "tempfile"])];

/// Adapters that other adapters may depend on: shared vendor code, what every blob store does with bytes, the verbs of the SQL ledgers, and the resampler. They depend on no adapter themselves.
const SUPPORT_ADAPTERS: [&str; 6] = [
    "satchel-blob-content",
    "satchel-http-server",
    "satchel-ledger-sql",
    "satchel-platform-http",
    "satchel-resampler",
    "satchel-worker-process",
];

/// The workspace crates that an adapter may depend on, besides [`SUPPORT_ADAPTERS`].
const ADAPTER_DEPENDENCIES: [&str; 3] = ["satchel-domain", "satchel-markup", "satchel-ports"];

/// What the ledgers decide alike; they alone may depend on it.
const LEDGER_DECISIONS: &str = "satchel-ledger";
const LEDGER_ADAPTERS: [&str; 3] = ["satchel-ledger-postgres", "satchel-ledger-sql", "satchel-ledger-sqlite"];

/// Additional workspace crates for an adapter's tests. The web's tests run on the real stores, Telegram's render what
/// routing has measured, and those of tracing collect the spans that the measuring wrappers open.
const ADAPTER_TEST_DEPENDENCIES: [&str; 14] = [
    "satchel-contracts",
    "satchel-fake-discord",
    "satchel-fake-kit",
    "satchel-fake-model",
    "satchel-fake-telegram",
    "satchel-files",
    "satchel-http",
    "satchel-ledger-sqlite",
    "satchel-local",
    "satchel-metrics",
    "satchel-requirements",
    "satchel-routing",
    "satchel-servers",
    "satchel-wait",
];

/// What unit tests under `crates/` may use besides what the code itself uses there.
const TEST_LIBRARIES: [&str; 5] = ["criterion", "insta", "mockall", "proptest", "rstest"];

/// Paths in a checkout that are not part of the project: git's data, build output, and data of a run.
const EXCLUDED_PATHS: [&str; 5] = [".git", "target", "apps/satchel-script/target", "satchel-data", "files"];

fn metadata() -> Metadata {
    let manifest = workspace_root().join("Cargo.toml");
    MetadataCommand::new()
        .manifest_path(manifest)
        .other_options(["--locked".to_owned(), "--offline".to_owned()])
        .exec()
        .expect("cargo knows the workspace")
}

/// The workspace's packages with the folder, such as `crates/domain`, that each lies in.
fn packages(metadata: &Metadata) -> Vec<(String, &Package)> {
    let folder = |package: &Package| {
        let manifest =
            package.manifest_path.strip_prefix(&metadata.workspace_root).expect("a member lies in the workspace");
        manifest.parent().expect("a manifest lies in a folder").to_string()
    };
    metadata.workspace_packages().into_iter().map(|package| (folder(package), package)).collect()
}

fn is_ours(dependency: &Dependency) -> bool {
    dependency.path.is_some()
}

/// What is linked into `satchel`, tests and their features left out, with the features of each.
fn linked_into_satchel() -> BTreeMap<String, BTreeSet<String>> {
    linked_with(&[])
}

/// The same with these arguments of cargo's.
fn linked_with(arguments: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace_root());
    cargo.args(["tree", "--package", "satchel", "--edges", "normal", "--prefix", "none", "--format", "{p}|{f}"]);
    let output = cargo.args(["--locked", "--offline"]).args(arguments).output().expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut linked: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (package, features) = line.split_once('|').unwrap_or((line, ""));
        let name = package.split(' ').next().unwrap_or_default().to_owned();
        let features = features.trim_end_matches(" (*)").split(',').filter(|feature| !feature.is_empty());
        linked.entry(name).or_default().extend(features.map(str::to_owned));
    }
    assert!(linked.contains_key("satchel-domain") && linked.contains_key("tokio"), "the tree was read: {linked:?}");
    linked
}

/// Every file beneath a directory of the workspace that `is_wanted` by its name, by its path in the workspace.
fn find_files(directory: &Path, is_wanted: fn(&Path) -> bool) -> Vec<(PathBuf, String)> {
    fn walk(directory: &Path, is_wanted: fn(&Path) -> bool, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).expect("the sources can be listed").flatten() {
            let path = entry.path();
            let is_ours = !EXCLUDED_PATHS.iter().any(|name| path == workspace_root().join(name));
            if path.is_dir() && is_ours {
                walk(&path, is_wanted, found);
            } else if path.is_file() && is_wanted(&path) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(directory, is_wanted, &mut found);
    let read = |path: PathBuf| {
        let text = std::fs::read(&path).expect("sources can be read");
        let path = path.strip_prefix(workspace_root()).expect("it lies in the root").to_owned();
        (path, String::from_utf8_lossy(&text).into_owned())
    };
    found.into_iter().map(read).collect()
}

/// Every source file of the workspace, by its path in it.
fn source_files() -> Vec<(PathBuf, String)> {
    let layers = ["crates", "adapters", "apps", "tests"].map(|layer| workspace_root().join(layer));
    let is_source = |path: &Path| path.extension().is_some_and(|extension| extension == "rs");
    let found: Vec<_> = layers.iter().flat_map(|layer| find_files(layer, is_source)).collect();
    assert!(found.len() > 100, "the sources were found");
    found
}

/// Fails with all complaints.
fn assert_no_complaints(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn dependencies_point_inward() {
    let metadata = metadata();
    let packages = packages(&metadata);
    let folder_of: BTreeMap<&str, &str> =
        packages.iter().map(|(folder, package)| (package.name.as_str(), folder.as_str())).collect();
    let used_by_code: BTreeSet<&str> = packages
        .iter()
        .filter(|(folder, _)| folder.starts_with("crates/"))
        .flat_map(|(_, package)| &package.dependencies)
        .filter(|dependency| dependency.kind == DependencyKind::Normal)
        .map(|dependency| dependency.name.as_str())
        .collect();
    let mut complaints = Vec::new();
    for (folder, package) in &packages {
        let name = package.name.as_str();
        for dependency in &package.dependencies {
            let of = dependency.name.as_str();
            let ours = is_ours(dependency);
            let development = dependency.kind == DependencyKind::Development;
            let allowed = match folder.split('/').next() {
                Some("crates") => {
                    let Some((_, inward)) = ALLOWED_DEPENDENCIES.iter().find(|(of, _)| *of == name) else {
                        complaints
                            .push(format!("{name} is new under crates/: add its dependencies to ALLOWED_DEPENDENCIES"));
                        break;
                    };
                    let is_for_tests =
                        CRATE_TEST_DEPENDENCIES.iter().any(|(package, tests)| *package == name && tests.contains(&of));
                    match (ours, development) {
                        (_, true) if is_for_tests => true,
                        (true, _) => inward.contains(&of),
                        (false, true) => TEST_LIBRARIES.contains(&of) || used_by_code.contains(of),
                        (false, false) => true,
                    }
                }
                Some("adapters") if ours => {
                    ADAPTER_DEPENDENCIES.contains(&of)
                        || of == LEDGER_DECISIONS && LEDGER_ADAPTERS.contains(&name)
                        || SUPPORT_ADAPTERS.contains(&of) && !SUPPORT_ADAPTERS.contains(&name)
                        || development && ADAPTER_TEST_DEPENDENCIES.contains(&of)
                }
                // An app names what it puts together; nobody names an app but the tests.
                Some("apps") if ours => folder_of.get(of).is_some_and(|folder| {
                    folder.starts_with("crates/") || folder.starts_with("adapters/") || development
                }),
                _ => true,
            };
            if !allowed {
                complaints.push(format!("{folder} must not depend on {of} ({:?})", dependency.kind));
            }
        }
    }
    for (name, tests) in CRATE_TEST_DEPENDENCIES {
        let package = packages.iter().find(|(_, package)| package.name.as_str() == name).map(|(_, package)| package);
        let is_used = |test: &&&str| {
            let mut dependencies = package.iter().flat_map(|package| &package.dependencies);
            dependencies.any(|used| used.kind == DependencyKind::Development && used.name == **test)
        };
        let unused = tests.iter().filter(|test| !is_used(test));
        complaints.extend(unused.map(|test| format!("the tests of {name} need no {test}: take it off the list")));
    }
    assert_no_complaints(&complaints);
}

#[test]
fn one_vendor_has_one_home() {
    let metadata = metadata();
    let mut complaints = Vec::new();
    for (folder, package) in packages(&metadata).iter().filter(|(folder, _)| !folder.starts_with("tests/")) {
        let vendors = package.dependencies.iter().filter(|dependency| {
            dependency.kind == DependencyKind::Normal
                && !is_ours(dependency)
                && !FOUNDATIONS.contains(&dependency.name.as_str())
        });
        for vendor in vendors {
            match VENDOR_HOMES.iter().find(|(name, _)| *name == vendor.name) {
                Some((_, homes)) if homes.contains(&package.name.as_str()) => {}
                Some((name, homes)) => complaints.push(format!("{name} lives in {homes:?}, not in {folder}")),
                None => complaints.push(format!("{} in {folder} has no home yet: add it to VENDOR_HOMES", vendor.name)),
            }
        }
    }
    assert_no_complaints(&complaints);
}

#[test]
fn mocks_stay_in_tests() {
    let linked = linked_into_satchel();
    for test_only in TEST_LIBRARIES.into_iter().chain(["satchel-contracts", "satchel-fake-kit", "tempfile"]) {
        assert!(!linked.contains_key(test_only), "{test_only} is linked into satchel");
    }
    assert!(!linked["satchel-ports"].contains("mocks"), "satchel is built with mocks");
}

/// Whoever embeds Satchel builds the core and what they ask for.
#[test]
fn embedding_core_links_no_platform() {
    let linked = linked_with(&["--no-default-features"]);
    let application = [
        "axum",
        "clap",
        "croner",
        "genai",
        "opus-pure",
        "prometheus-client",
        "rustyline",
        "serde-saphyr",
        "serenity",
        "teloxide",
    ];
    for package in application {
        assert!(!linked.contains_key(package), "{package} is linked into a program that embeds satchel");
    }
    let full = linked_into_satchel();
    assert!(application.iter().all(|heavy| full.contains_key(*heavy)), "the names are right: {full:?}");
    assert!(linked.len() <= 210, "{} crates are linked into a program that embeds satchel", linked.len());
}

#[test]
fn no_interpreter_in_the_main_binary() {
    const INTERPRETERS: [&str; 10] =
        ["starlark", "rhai", "mlua", "boa_engine", "rquickjs", "pyo3", "wasmi", "lopdf", "pdfium-render", "mupdf"];
    // quick-xml is missing: object_store reads the answers of the operator's own server with it. That no crate of ours but
    // the decoder names it, `one_vendor_has_one_home` says.
    const DECODERS: [&str; 22] = [
        "calamine",
        "chardetng",
        "ffmpeg-next",
        "hayro",
        "hayro-interpret",
        "hayro-syntax",
        "heifer",
        "html2text",
        "html5ever",
        "gif",
        "image",
        "image-webp",
        "mail-parser",
        "pdf",
        "pdf-extract",
        "png",
        "rtf-parser-tt",
        "satchel-decoder",
        "symphonia",
        "symphonia-core",
        "tiff",
        "zune-jpeg",
    ];
    let linked = linked_into_satchel();
    for hostile in INTERPRETERS.into_iter().chain(DECODERS) {
        assert!(!linked.contains_key(hostile), "{hostile} is linked into satchel; it belongs into a worker process");
    }
    // It writes archives; what would unpack them is a feature.
    assert_eq!(linked.get("zip"), Some(&BTreeSet::new()), "archives are unpacked in a worker process");
}

/// With the feature on, numbers in tagged types can't be read any more, and a Telegram location ends the update.
#[test]
fn serde_json_has_no_arbitrary_precision() {
    #[derive(serde::Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Update {
        Location { latitude: f64 },
    }
    const FEATURE: &str = "arbitrary_precision";
    assert!(!linked_into_satchel()["serde_json"].contains(FEATURE));
    let metadata = metadata();
    let resolve = metadata.resolve.expect("cargo resolves the workspace");
    let turns_it_on = |node: &&cargo_metadata::Node| {
        node.id.repr.contains("serde_json") && node.features.iter().any(|feature| feature.as_str() == FEATURE)
    };
    assert_eq!(resolve.nodes.iter().find(turns_it_on).map(|node| &node.id.repr), None);
    let Update::Location { latitude } =
        serde_json::from_str(r#"{"kind":"location","latitude":52.520008}"#).expect("a location can be read");
    assert!((latitude - 52.520_008).abs() < 1e-9);
}

#[test]
fn packages_follow_folder_names_and_workspace_lints() {
    let metadata = metadata();
    let mut complaints = Vec::new();
    for (folder, package) in packages(&metadata) {
        let (layer, name) = folder.split_once('/').expect("every package lies in a layer");
        let wanted = if layer == "apps" { name.to_owned() } else { format!("satchel-{name}") };
        if package.name.as_str() != wanted {
            complaints.push(format!("{folder} is called {}, not {wanted}", package.name));
        }
        let manifest = std::fs::read_to_string(&package.manifest_path).expect("a manifest can be read");
        if !manifest.contains("[lints]\nworkspace = true\n") {
            complaints.push(format!("{folder} doesn't keep the workspace's lints"));
        }
        if package.publish.as_ref().is_none_or(|registries| !registries.is_empty()) {
            complaints.push(format!("{folder} could be published by accident"));
        }
    }
    assert_no_complaints(&complaints);
}

/// Everything that a person sees is a part, which the driver in `crates/routing` performs.
#[test]
fn only_the_driver_calls_a_channel_to_post() {
    let calls = ["post", "edit", "delete", "find_sent"].map(|call| format!("channel.{call}("));
    let find_calls = |file: &ProductionFile| {
        let text: String = file.text.split_whitespace().collect();
        let found: Vec<_> = calls.iter().filter(|call| text.contains(call.as_str())).cloned().collect();
        found
    };
    let files = production_files();
    let (routing, others): (Vec<_>, Vec<_>) = files
        .iter()
        .filter(|file| file.path.starts_with("crates/"))
        .partition(|file| file.path.starts_with("crates/routing/"));
    let performed: BTreeSet<_> = routing.into_iter().flat_map(find_calls).collect();
    assert_eq!(performed.len(), calls.len(), "the driver makes each of them: {performed:?}");
    let complaints = others
        .into_iter()
        .flat_map(|file| find_calls(file).into_iter().map(|call| format!("{} calls `{call}…)`", file.path)));
    assert_no_complaints(&complaints.collect::<Vec<_>>());
}

/// Required comments tend to repeat the name, so only the three crates that others build on require them.
#[test]
fn only_the_core_requires_documentation() {
    let requires_docs = |path: &Path| {
        let root = std::fs::read_to_string(path.join("src/lib.rs")).unwrap_or_default();
        let manifest = std::fs::read_to_string(path.join("Cargo.toml")).expect("a manifest can be read");
        // Written apart, so that this file doesn't find itself.
        let lint = concat!("missing", "_docs");
        assert!(!manifest.contains(lint), "{} sets {lint} beside its lib.rs", path.display());
        root.contains(&format!("\n#![warn({lint})]\n"))
    };
    let metadata = metadata();
    let folders = packages(&metadata).into_iter().map(|(folder, _)| folder);
    let documented: BTreeSet<String> = folders.filter(|folder| requires_docs(&workspace_root().join(folder))).collect();
    assert_eq!(documented, BTreeSet::from(["crates/domain", "crates/ports", "crates/routing"].map(str::to_owned)));
    requires_docs(&workspace_root());
}

/// Each example in a comment would be a separate program to build. Cargo builds them only where `doctest` is on, so an
/// example elsewhere is never compiled.
#[test]
fn examples_are_tests_and_not_in_comments() {
    let metadata = metadata();
    let libraries = metadata.workspace_packages().into_iter().flat_map(|package| {
        let libraries = package.targets.iter().filter(|target| target.is_lib());
        libraries.map(move |library| (package.name.as_str(), library.doctest))
    });
    let mut complaints = Vec::new();
    for (package, looks_for_examples) in libraries {
        if looks_for_examples {
            complaints.push(format!("{package}: its `[lib]` lacks `doctest = false`"));
        }
    }
    for (path, text) in source_files() {
        complaints.extend(find_doc_examples(&text).map(|line| format!("{}:{line} has an example", path.display())));
    }
    assert_eq!(find_doc_examples("/// ```\n/// f();\n/// ```\n//! ```rust\n//! ```\n").collect::<Vec<_>>(), [1, 4]);
    assert_no_complaints(&complaints);
}

/// The lines at which a comment begins code that the documentation's tests would compile.
fn find_doc_examples(text: &str) -> impl Iterator<Item = usize> {
    let mut is_open = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.trim_start();
        let fence = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?.trim_start().strip_prefix("```")?;
        is_open = !is_open;
        let is_other_language = ["json", "text", "toml", "yaml"].contains(&fence.trim());
        (is_open && !is_other_language).then_some(index + 1)
    })
}

#[test]
fn unsafe_is_forbidden() {
    let manifest = std::fs::read_to_string(workspace_root().join("Cargo.toml")).expect("the root has a manifest");
    // Written apart, so that this file doesn't find itself.
    let word = concat!("unsafe", "_code");
    assert!(manifest.contains(&format!("{word} = \"forbid\"")));
    for (path, text) in source_files() {
        assert!(!text.contains(word), "{} speaks of {word}", path.display());
    }
}

#[test]
fn every_file_has_a_header_and_stays_small() {
    let mut complaints = Vec::new();
    for (path, text) in source_files() {
        let shown = path.display();
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if !text.starts_with("//! ") || text.starts_with("//! placeholder") {
            complaints.push(format!("{shown} doesn't open by saying what it owns"));
        }
        let lines = text.lines().count();
        if lines > 600 {
            complaints.push(format!("{shown} has {lines} lines; it is split by 600"));
        }
        if ["mod", "utils", "util", "common", "helpers", "misc"].contains(&name) {
            complaints.push(format!("{shown} has a name that says nothing"));
        }
        // Written apart, so that this file doesn't find itself.
        for banned in [
            concat!("#[", "allow("),
            concat!("#![", "allow("),
            concat!("#[", "ignore"),
            concat!("#[", "should_panic"),
            concat!("todo", "!("),
        ] {
            if text.contains(banned) {
                complaints.push(format!("{shown} holds {banned}"));
            }
        }
    }
    assert_no_complaints(&complaints);
}

/// The tests and files named in an ADR's "Confirmation" must exist, and so must the successor of one that is superseded.
#[test]
fn decisions_name_tests_that_exist() {
    let sources = source_files();
    let is_there = |named: &str| {
        let (module, name) = match named.rsplit_once("::") {
            Some((module, name)) => (module.split("::").next().unwrap_or_default(), name),
            None => ("", named),
        };
        let beginning = name.strip_suffix('…');
        let wanted = match name.strip_suffix('!') {
            Some(macro_name) => format!("macro_rules! {macro_name}"),
            None => format!("fn {}", beginning.unwrap_or(name)),
        };
        sources.iter().any(|(path, text)| {
            let is_module = |part: std::path::Component<'_>| {
                part.as_os_str().to_str().is_some_and(|part| part.trim_end_matches(".rs") == module)
            };
            (module.is_empty() || path.components().any(is_module))
                && text.match_indices(&wanted).any(|(at, _)| {
                    let after = text[at + wanted.len()..].chars().next();
                    beginning.is_some() || after.is_some_and(|after| !after.is_alphanumeric() && after != '_')
                })
        })
    };
    let mut complaints = Vec::new();
    let mut checked = 0;
    for entry in std::fs::read_dir(workspace_root().join("docs/adr")).expect("decisions are written down").flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a decision is UTF-8");
        let decision = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some((_, successor)) = text.split_once("- Status: superseded by ADR ") {
            let number: String = successor.chars().take_while(char::is_ascii_digit).collect();
            let follows = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&number);
            let decisions = std::fs::read_dir(workspace_root().join("docs/adr")).expect("decisions are written down");
            if number.is_empty() || !decisions.flatten().any(follows) {
                complaints.push(format!("{decision} names no successor"));
            }
        }
        let Some((_, confirmation)) = text.split_once("## Confirmation") else {
            complaints.push(format!("{decision} has no confirmation"));
            continue;
        };
        for named in confirmation.split('`').skip(1).step_by(2).filter(|named| !named.contains(' ')) {
            let holds = if named.contains('/') || named.ends_with(".rs") {
                workspace_root().join(named).exists()
            } else if named.contains('_') {
                is_there(named)
            } else {
                continue;
            };
            checked += 1;
            if !holds {
                complaints.push(format!("{decision} names `{named}`, which doesn't exist"));
            }
        }
    }
    assert!(checked > 6, "only {checked} names were checked");
    assert_no_complaints(&complaints);
}

/// Each code block of the guide equals a file of the compiled example or the end of its test, and the listed
/// dependencies are those that the blocks use.
#[test]
fn guide_to_embedding_shows_the_compiled_example() {
    let read = |path: &str| std::fs::read_to_string(workspace_root().join(path)).expect("it is UTF-8");
    let guide = read("docs/guide/embedding.md");
    let blocks_of = |language: &str| -> Vec<String> {
        let opening = format!("```{language}\n");
        guide.split(&opening).skip(1).filter_map(|block| block.split("```").next()).map(str::to_owned).collect()
    };
    let blocks = blocks_of("rust");
    let mut files: Vec<String> = ["board", "dice", "run", "main"]
        .map(|name| read(&format!("apps/satchel/examples/board/{name}.rs")))
        .iter()
        .map(|file| file.lines().skip_while(|line| line.starts_with("//!") || line.is_empty()).collect())
        .map(|lines: Vec<&str>| lines.join("\n") + "\n")
        .collect();
    let test = read("apps/satchel/tests/it/promises.rs");
    let (_, promises) = test.split_once("\nstruct Fixture").expect("the test has a fixture");
    files.push(format!("struct Fixture{promises}"));
    assert_eq!(blocks, files);
    let listed: BTreeSet<String> = blocks_of("toml")
        .iter()
        .flat_map(|block| block.lines())
        .filter_map(|line| line.split_once(" = ").map(|(name, _)| name.replace('-', "_")))
        .collect();
    let metadata = metadata();
    let (_, satchel) =
        packages(&metadata).into_iter().find(|(folder, _)| folder == "apps/satchel").expect("it is a member");
    let available = satchel.dependencies.iter().map(|dependency| dependency.name.replace('-', "_"));
    let is_used = |name: &String| blocks.iter().any(|block| block.contains(&format!("{name}::")));
    let missing: Vec<String> = available.filter(is_used).filter(|name| !listed.contains(name)).collect();
    assert_no_complaints(&missing);
}

/// A checkout must not refer to files outside of it.
#[test]
fn checkout_has_no_outside_references() {
    // Written apart, so that this file doesn't find itself.
    let elsewhere = concat!("../", "shared");
    let files = find_files(&workspace_root(), |_| true);
    assert!(files.iter().any(|(path, _)| path.ends_with(".ci/run")), "all files are looked at, hidden ones too");
    let speaking = files.iter().filter(|(_, text)| text.contains(elsewhere));
    let complaints = speaking.map(|(path, _)| format!("{} speaks of {elsewhere}", path.display()));
    assert_no_complaints(&complaints.collect::<Vec<_>>());
}
