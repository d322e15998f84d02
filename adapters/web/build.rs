//! Embeds the page: a table of the files under `page/`, with their bytes.

use std::{env, fmt::Write, fs, path::Path};

fn main() {
    println!("cargo:rerun-if-changed=page");
    let page = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("page");
    let mut names: Vec<String> = Vec::new();
    list_files(&page, "", &mut names);
    names.sort();
    let mut table = String::from("&[\n");
    for name in names {
        // Not an absolute path: build output may be cached for a checkout in another directory.
        let path = format!("/page/{name}");
        writeln!(table, "    ({name:?}, include_bytes!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?}))),")
            .expect("a string takes it");
    }
    table.push(']');
    let out = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join("page.rs");
    fs::write(out, table).expect("the build directory can be written to");
}

/// Adds the names of all files below `directory`, relative to the page.
fn list_files(directory: &Path, prefix: &str, names: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("the page lies beside this file").flatten() {
        let name = entry.file_name().into_string().expect("files of the page have plain names");
        let is_hidden = name.starts_with('.');
        if entry.path().is_dir() {
            list_files(&entry.path(), &format!("{prefix}{name}/"), names);
        } else if !is_hidden {
            names.push(format!("{prefix}{name}"));
        }
    }
}
