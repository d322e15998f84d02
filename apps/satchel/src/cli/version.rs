//! What `--version` prints.

use std::sync::LazyLock;

/// The version, with the commit that a release build names in `SATCHEL_COMMIT`. The environment of the build has it, because a
/// build script that asked git would build the program anew after each commit.
pub(super) static VERSION: LazyLock<String> = LazyLock::new(|| describe_version(option_env!("SATCHEL_COMMIT")));

fn describe_version(commit: Option<&str>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match commit.map(str::trim).filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{version} (commit {commit})"),
        None => version.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_has_the_commit_of_a_release_build() {
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(describe_version(Some("4e2a8748f1c2")), format!("{version} (commit 4e2a8748f1c2)"));
        for none in [None, Some(""), Some(" \n")] {
            assert_eq!(describe_version(none), version, "{none:?}");
        }
    }
}
