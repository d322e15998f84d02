//! Which libraries in the main process read what strangers, models, servers or workers write, and why none of them can
//! end or stall it. A panic is caught or ends one task; an abort, an overflow of the stack or an endless loop does more.

use std::collections::BTreeSet;

use cargo_metadata::DependencyKind;
use satchel_system::real_binary::workspace_root;

use super::{assert_no_complaints, is_ours, linked_into_satchel, metadata, packages};

/// Each parser of untrusted bytes: the library, whose bytes it reads, and why it neither aborts nor loops on them. What
/// can't be bounded belongs into a worker process.
const PARSERS: [(&str, &str, &str); 59] = [
    ("aho-corasick", "the literals of patterns", "builds a table of at most 1,000 bytes of them, and reads text once"),
    ("async-compression", "web pages in gzip", "inflates block by block; both sizes are limited in `adapters/http`"),
    ("async-nats", "frames of the operator's server", "takes one frame a step from a buffer; the server limits it"),
    ("async-tungstenite", "frames of Discord", "hands them to tungstenite"),
    (
        "axum",
        "requests",
        "matches paths in a tree of its routes; bodies are read with limits by `adapters/http-server`",
    ),
    ("base64", "files and images in requests and answers", "maps characters by a table to three quarters of the bytes"),
    ("bstr", "patterns of models", "goes once through a pattern of at most 1 KB, for globset"),
    ("cap-std", "paths of models", "resolves a component a step; a path has at most 32, and links are counted"),
    ("chrono", "times of Telegram and of the operator's bucket", "reads fixed forms, an item a step"),
    ("croner", "rhythms of people and models", "reads five fields; a search for the next time ends in the year 5000"),
    ("encoding_rs", "the charset of a response", "decodes by tables, a buffer a step"),
    ("flate2", "web pages in gzip", "inflates into the buffer that it is given"),
    ("form_urlencoded", "queries", "splits at `&` and `=`, once through"),
    ("genai", "answers of model providers", "splits a stream into frames; each is JSON, whose depth serde_json limits"),
    ("globset", "patterns of models", "allows 100 braces within each other, at 10 KB of stack each in a debug build"),
    ("granit-parser", "the operator's YAML", "is driven by serde-saphyr, which limits depth and number of values"),
    ("h2", "answers of servers", "reads frames of 16 KB by a state machine; headers and windows are limited"),
    ("http", "heads of requests and answers", "looks each byte of a name or value up in a table, once through"),
    ("httparse", "heads of requests and answers", "goes once through a buffer that hyper limits; 100 headers at most"),
    (
        "httpdate",
        "how long the operator's collector wants to be left alone",
        "reads forms of 22 to 29 bytes, no others",
    ),
    ("hyper", "requests and answers", "drives httparse, and streams bodies without keeping them"),
    ("idna", "hosts of addresses", "goes through a label by loops, and an address has few"),
    ("imagesize", "headers of images", "each step moves ahead in at most 4 MB (`HEADER_BYTES`); panics are caught"),
    ("infer", "beginnings of files", "compares bytes of the first 64 KB; without `std` it opens no compound files"),
    ("ipnet", "addresses", "reads a number a step, of a few characters"),
    ("jiff", "times of people and models", "reads fixed forms of some characters"),
    ("libsqlite3-sys", "searched words", "they are quoted terms of FTS5, whose parser keeps a stack of limited depth"),
    ("matchit", "paths of requests", "walks a tree of our own routes, which has a known depth"),
    ("mime", "types in headers", "goes once through a header"),
    (
        "mimetype-detector",
        "beginnings of files",
        "tests of 64 KB in a fixed tree, whose loops move ahead; panics are caught",
    ),
    ("minijinja", "templates of the operator", "has limits of recursion and fuel; values are never read as templates"),
    ("multer", "nothing: no route takes forms", "is a feature of axum that the fake platforms use"),
    ("object_store", "answers of the operator's bucket", "lists of flat XML, by quick-xml"),
    ("opus-pure", "sound of the operator's speech engine", "decodes packet by packet (ADR 0020)"),
    ("percent-encoding", "paths and queries", "goes once through them"),
    (
        "pulldown-cmark",
        "texts of everybody",
        "keeps a tree in a list and walks it by loops; addresses nest at most 32 parentheses",
    ),
    (
        "pulldown-latex",
        "formulas",
        "is given `BoundedTex` only, whose nesting is limited (ADR 0038); panics are caught",
    ),
    ("quick-xml", "answers of the operator's bucket", "pulls events in a loop; the structures that are read are flat"),
    ("regex", "patterns of models", "32 levels, 1 KB, and 1 MB compiled; searches take linear time"),
    (
        "regex-automata",
        "patterns of models",
        "calls itself for each level, of which `file_search` allows 32, globset 100",
    ),
    ("regex-syntax", "patterns of models", "keeps its stack on the heap, and checks the depth before it translates"),
    ("reqwest", "answers of servers", "follows few redirects, each checked; bodies are streamed with limits"),
    ("reqwest-websocket", "frames of Discord", "hands them to tungstenite"),
    ("rusqlite", "rows of our own database", "binds what others wrote as values, never as SQL"),
    ("rustls", "TLS of servers", "reads records of 16 KB, and handshakes of 64 KB"),
    (
        "rustls-webpki",
        "certificates of servers",
        "has a budget of signatures and paths, and 6 authorities at most in a chain",
    ),
    ("serde-saphyr", "the operator's YAML", "limits depth and number of values, and refuses bombs of aliases"),
    ("serde_json", "JSON of everybody", "ends at 128 levels, so that code that walks a value goes no deeper either"),
    ("serde_urlencoded", "queries", "goes once through pairs into flat structures"),
    ("serenity", "events of Discord", "only its types, filled by serde_json"),
    ("similar", "two versions of a file", "halves its problem at each call of itself, and stops after 200 ms"),
    ("sqlx", "answers of the operator's PostgreSQL", "takes one message a step; values are bound, never SQL"),
    ("sqlx-postgres", "answers of the operator's PostgreSQL", "takes one message a step, by the length in its head"),
    ("teloxide", "updates of Telegram", "only its types, filled by serde_json"),
    ("time", "times of Discord", "reads one fixed form of some characters"),
    ("tungstenite", "frames of Discord", "joins frames in a loop, up to 64 MiB"),
    ("url", "addresses of everybody", "is a state machine that goes once through an address"),
    ("uuid", "ids in requests", "reads 36 characters"),
    ("value-ext", "answers of model providers", "takes values out of JSON by pointers that genai names, in a loop"),
];

/// Libraries that our crates name, or whose name sounds of a parser, and that read nothing untrusted: they write,
/// compute, or read only what the operator or we ourselves give them.
const NO_PARSERS: [&str; 77] = [
    "anstyle",
    "anstyle-parse",
    "anyhow",
    "async-trait",
    "backon",
    "bytes",
    // The command line and its documents.
    "clap",
    "clap_complete",
    "clap_mangen",
    // Keys of the operator, for async-nats.
    "data-encoding",
    // Keys of the operator, for async-nats.
    "der",
    // The configuration.
    "encoding_rs_io",
    "futures",
    "getrandom",
    "hmac",
    // Bodies without their content.
    "http-body",
    "http-body-util",
    "hyper-util",
    "idna_adapter",
    "indicatif",
    // The calls of the system.
    "libc",
    // Types by a file's name.
    "mime_guess",
    "miniz_oxide",
    // Keys of the operator, for async-nats.
    "nkeys",
    "opentelemetry",
    "opentelemetry-http",
    "opentelemetry-otlp",
    "opentelemetry_sdk",
    // Keys and certificates of the operator.
    "pem-rfc7468",
    "pkcs8",
    "postcard",
    "prometheus-client",
    "prost",
    "prost-derive",
    // Certificates of the system and of the operator.
    "rustls-native-certs",
    "rustls-pki-types",
    "rustix",
    "rustyline",
    "schemars",
    "schemars_derive",
    "secrecy",
    "serde",
    "serde_path_to_error",
    "sha2",
    "spki",
    "sqlx-core",
    "sqlx-sqlite",
    "strsim",
    // Writes backups; nothing reads archives with it.
    "tar",
    "tempfile",
    "thiserror",
    "tokio",
    "tokio-stream",
    "tokio-tungstenite",
    "tokio-util",
    // Redirects of reqwest.
    "tower-http",
    "tracing",
    "tracing-opentelemetry",
    "tracing-subscriber",
    "unicode-normalization",
    "unicode-segmentation",
    "unicode-width",
    "utf8parse",
    "utoipa",
    "utoipa-axum",
    "utoipa-gen",
    "wasm-encoder",
    // Compiles the guests, which are text in our sources.
    "wasmparser",
    "wasmprinter",
    "wasmtime",
    "wasmtime-environ",
    "wast",
    "wat",
    "webpki-root-certs",
    // Writes archives; what would unpack them is a feature.
    "zip",
    "zlib-rs",
    "zopfli",
];

/// Parsers that come with other libraries, and whose names say too little to be found by a word.
const PARSER_NAMES: [&str; 3] = ["bstr", "der", "time"];

/// What the name of a parser has in it. It finds those that come with other libraries.
const PARSER_WORDS: [&str; 50] = [
    "cbor",
    "certs",
    "chrono",
    "cmark",
    "cookie",
    "csv",
    "date",
    "deflate",
    "encoding",
    "exif",
    "flate",
    "glob",
    "html",
    "http",
    "httparse",
    "idna",
    "image",
    "infer",
    "jinja",
    "json",
    "latex",
    "markdown",
    "matchit",
    "mime",
    "miniz",
    "msgpack",
    "multer",
    "nkeys",
    "nom",
    "opus",
    "parse",
    "pdf",
    "pem",
    "pkcs8",
    "pki",
    "postgres",
    "prost",
    "regex",
    "saphyr",
    "spki",
    "svg",
    "toml",
    "tungstenite",
    "url",
    "value-ext",
    "wast",
    "webpki",
    "xml",
    "yaml",
    "zip",
];

#[test]
fn parsers_of_untrusted_bytes_are_listed_with_reasons() {
    let linked = linked_into_satchel();
    let metadata = metadata();
    let packages = packages(&metadata);
    let named_by_us = packages
        .iter()
        .filter(|(_, package)| linked.contains_key(package.name.as_str()))
        .flat_map(|(_, package)| &package.dependencies)
        .filter(|dependency| dependency.kind == DependencyKind::Normal && !is_ours(dependency))
        .map(|dependency| dependency.name.as_str())
        .filter(|name| linked.contains_key(*name));
    let has_parser_word =
        |name: &&str| PARSER_NAMES.contains(name) || PARSER_WORDS.iter().any(|word| name.contains(word));
    // What our own crates read with is listed by itself.
    let is_own_crate = |name: &&str| name.starts_with("satchel-");
    let named_like_parsers =
        linked.keys().map(String::as_str).filter(has_parser_word).filter(|name| !is_own_crate(name));
    let is_listed = |name: &str| PARSERS.iter().any(|(library, ..)| *library == name) || NO_PARSERS.contains(&name);
    let unlisted: BTreeSet<&str> = named_by_us.chain(named_like_parsers).filter(|name| !is_listed(name)).collect();
    let mut complaints: Vec<String> = unlisted
        .into_iter()
        .map(|name| format!("{name}: say in PARSERS whose bytes it reads, and why it neither aborts nor loops on them"))
        .collect();
    for (library, input, reason) in PARSERS {
        if !linked.contains_key(library) {
            complaints.push(format!("{library} isn't linked into satchel any more"));
        }
        if input.is_empty() || reason.len() < 10 || NO_PARSERS.contains(&library) {
            complaints.push(format!("{library} has no reason, or is in both lists"));
        }
    }
    assert_no_complaints(&complaints);
    assert!(!linked["serde_json"].contains("unbounded_depth"), "JSON of any depth would overflow the stack");
    assert!(!linked["infer"].contains("std"), "compound files would be opened");
}

/// The tests of the page's formulas read a list of commands, which is that of one version.
#[test]
fn every_command_of_the_formula_library_is_tried() {
    let path = workspace_root().join("adapters/web/src/markdown/tests/latex_commands.txt");
    let list = std::fs::read_to_string(path).expect("the list is UTF-8");
    let metadata = metadata();
    let library = metadata.packages.iter().find(|package| package.name.as_str() == "pulldown-latex");
    let version = &library.expect("the page renders formulas").version;
    let title = format!("The commands of pulldown-latex {version},");
    assert!(list.starts_with(&title), "the library is {version}: compare the commands of its parser with the list");
}
