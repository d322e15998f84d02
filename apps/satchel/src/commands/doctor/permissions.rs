//! Checks whether other users of this machine can read the data, and whether Satchel can.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;
use satchel_files::OwnDirectory;

use super::Finding;
use crate::{config::Config, own_paths::private_directories};

const CHECK: &str = "permissions";

/// The mode bits of the group and of others; none of them may be set.
const OTHERS_MODE_MASK: u32 = 0o077;

/// Checks every private directory, and the shared workspace.
pub(super) fn check_permissions(config: &Config) -> Vec<Finding> {
    let mut findings: Vec<Finding> = private_directories(config).iter().flat_map(check_private_directory).collect();
    findings.extend(config.workspace.shared_dir.as_ref().and_then(|directory| check_shared_directory(&directory.0)));
    findings
}

/// A missing directory is created with the right mode; an unreadable one is reported by the storage check.
fn check_private_directory(OwnDirectory { path, is_own }: &OwnDirectory) -> Vec<Finding> {
    let display = path.display();
    let inspected = fs::metadata(path).and_then(|directory| Ok((directory, entry_names(path)?)));
    let Ok((directory, names)) = inspected else { return Vec::new() };
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
    let mut findings: Vec<Finding> = entries.iter().filter_map(|(path, entry)| check_mode(path, entry)).collect();
    findings.extend(entries.iter().filter_map(|(path, entry)| check_owner(path, entry, owner)));
    if findings.is_empty() {
        let found = match foreign.is_empty() {
            true => format!("only its owner can access {display}"),
            false => format!("only its owner can access Satchel's files in {display}"),
        };
        findings.push(Finding::ok(CHECK, found));
    }
    findings
}

fn entry_names(path: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn check_mode(path: &Path, entry: &Metadata) -> Option<Finding> {
    let mode = entry.mode() & 0o777;
    let display = path.display();
    let advice = match entry.is_dir() {
        true => format!("chmod 700 {display}"),
        false => format!("chmod 600 {display}"),
    };
    (mode & OTHERS_MODE_MASK != 0).then(|| {
        Finding::warning(CHECK, format!("other users of this machine can access {display} (mode {mode:03o})"), advice)
    })
}

fn check_owner(path: &Path, entry: &Metadata, owner: u32) -> Option<Finding> {
    let display = path.display();
    (entry.uid() != owner).then(|| {
        let found = format!("{display} belongs to user {}, but Satchel's data belongs to user {owner}", entry.uid());
        Finding::warning(CHECK, found, format!("chown -R {owner} {display}"))
    })
}

/// The operator decides by the mode who can read the shared workspace; write access for everybody is a warning.
fn check_shared_directory(path: &Path) -> Option<Finding> {
    let mode = fs::metadata(path).ok()?.mode() & 0o777;
    let display = path.display();
    Some(match mode & 0o002 {
        0 => Finding::ok(CHECK, format!("access to the shared workspace {display} is as its mode allows ({mode:03o})")),
        _ => Finding::warning(
            CHECK,
            format!(
                "every user of this machine can change the files in the shared workspace {display} (mode {mode:03o})"
            ),
            format!("chmod o-w {display}"),
        ),
    })
}
