//! Whether others on this machine can read what people wrote, and whether Satchel can.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

use super::Finding;
use crate::{
    config::Config,
    stores::{PrivateDirectory, private_directories},
};

const CHECK: &str = "permissions";

/// What others may do with a file or directory that is kept: nothing.
const OTHERS: u32 = 0o077;

/// Looks at every directory in which something is kept, and at the one that is shared out.
pub(super) fn check_permissions(config: &Config) -> Vec<Finding> {
    let mut findings: Vec<Finding> = private_directories(config).iter().flat_map(check_private_directory).collect();
    findings.extend(config.workspace.shared_dir.as_ref().and_then(|directory| shared_out(&directory.0)));
    findings
}

/// A directory that isn't made yet is made as it should be; that one can't be read is found where it is written to.
fn check_private_directory(PrivateDirectory { path, is_own }: &PrivateDirectory) -> Vec<Finding> {
    let shown = path.display();
    let found = fs::metadata(path).and_then(|directory| Ok((directory, names(path)?)));
    let Ok((directory, names)) = found else { return Vec::new() };
    let (own, foreign): (Vec<String>, Vec<String>) = names.into_iter().partition(|name| is_own(name));
    let mut entries: Vec<(PathBuf, Metadata)> = own
        .into_iter()
        .map(|name| path.join(name))
        .filter_map(|path| Some((path.clone(), path.symlink_metadata().ok().filter(|entry| !entry.is_symlink())?)))
        .collect();
    let owner = if geteuid().is_root() { directory.uid() } else { geteuid().as_raw() };
    if foreign.is_empty() {
        entries.insert(0, (path.clone(), directory));
    }
    let mut findings: Vec<Finding> = entries.iter().filter_map(|(path, entry)| exposed(path, entry)).collect();
    findings.extend(entries.iter().filter_map(|(path, entry)| misowned(path, entry, owner)));
    if findings.is_empty() {
        let found = match foreign.is_empty() {
            true => format!("only its owner can access {shown}"),
            false => format!("only its owner can access Satchel's files in {shown}"),
        };
        findings.push(Finding::ok(CHECK, found));
    }
    findings
}

fn names(path: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn exposed(path: &Path, entry: &Metadata) -> Option<Finding> {
    let mode = entry.mode() & 0o777;
    let shown = path.display();
    let advice = match entry.is_dir() {
        true => format!("chmod 700 {shown}"),
        false => format!("chmod 600 {shown}"),
    };
    (mode & OTHERS != 0).then(|| {
        Finding::warning(CHECK, format!("other users of this machine can access {shown} (mode {mode:03o})"), advice)
    })
}

fn misowned(path: &Path, entry: &Metadata, owner: u32) -> Option<Finding> {
    let shown = path.display();
    (entry.uid() != owner).then(|| {
        let found = format!("{shown} belongs to user {}, but Satchel's data belongs to user {owner}", entry.uid());
        Finding::warning(CHECK, found, format!("chown -R {owner} {shown}"))
    })
}

/// The operator says by its mode who reads what is shared out; that everybody changes it is hardly meant.
fn shared_out(path: &Path) -> Option<Finding> {
    let mode = fs::metadata(path).ok()?.mode() & 0o777;
    let shown = path.display();
    Some(match mode & 0o002 {
        0 => Finding::ok(CHECK, format!("access to the shared workspace {shown} is as its mode allows ({mode:03o})")),
        _ => Finding::warning(
            CHECK,
            format!(
                "every user of this machine can change the files in the shared workspace {shown} (mode {mode:03o})"
            ),
            format!("chmod o-w {shown}"),
        ),
    })
}
