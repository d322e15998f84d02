//! Which file is read, and where data goes when nothing is said.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use super::CONFIG_VARIABLE;

/// The name of the configuration file.
pub(crate) const FILE_NAME: &str = "satchel.yaml";

/// A value of the environment that is set to something.
pub(crate) fn variable<'a>(environment: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    let found = environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str());
    found.filter(|value| !value.is_empty())
}

/// The configuration file: `--config`, `SATCHEL_CONFIG`, `./satchel.yaml`, `satchel/satchel.yaml` in the XDG
/// configuration directory; the first that is named or exists. A named one is read even if it doesn't exist, so that
/// a slip of the pen is an error and not another configuration.
pub(crate) fn config_file(named: Option<&Path>, environment: &[(OsString, OsString)], cwd: &Path) -> Option<PathBuf> {
    let named = named.map(Path::to_owned).or_else(|| variable(environment, CONFIG_VARIABLE).map(PathBuf::from));
    if named.is_some() {
        return named;
    }
    if cwd.join(FILE_NAME).is_file() {
        return Some(PathBuf::from(FILE_NAME));
    }
    let user = xdg(environment, "XDG_CONFIG_HOME", ".config")?.join("satchel").join(FILE_NAME);
    user.is_file().then_some(user)
}

/// The directory for data when no key names one. The specification leaves the choice open; ours is: whoever works in a
/// directory of Satchel's own (a `satchel-data` or a `satchel.yaml` is there) gets `./satchel-data`, everybody else the
/// XDG data directory, so that a `satchel` called from anywhere finds the same conversations. Without a home it is
/// `./satchel-data` again.
pub(crate) fn data_dir(environment: &[(OsString, OsString)], cwd: &Path) -> PathBuf {
    let local = cwd.join("satchel-data");
    if local.is_dir() || cwd.join(FILE_NAME).is_file() {
        return local;
    }
    xdg(environment, "XDG_DATA_HOME", ".local/share").map_or(local, |dir| dir.join("satchel"))
}

/// Every directory that [`data_dir`] may choose from this working directory.
pub(crate) fn usual_data_dirs(environment: &[(OsString, OsString)], cwd: &Path) -> Vec<PathBuf> {
    let own = xdg(environment, "XDG_DATA_HOME", ".local/share").map(|dir| dir.join("satchel"));
    std::iter::once(cwd.join("satchel-data")).chain(own).collect()
}

/// A directory by the XDG base directory specification, which says that relative values are ignored.
fn xdg(environment: &[(OsString, OsString)], name: &str, beneath_home: &str) -> Option<PathBuf> {
    let absolute = |name| variable(environment, name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(name).or_else(|| absolute("HOME").map(|home| home.join(beneath_home)))
}
