//! The default paths of the configuration file and of the data.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    path::{Path, PathBuf},
};

use super::CONFIG_VARIABLE;

/// The name of the configuration file.
pub(crate) const FILE_NAME: &str = "satchel.yaml";

/// The data directory in the directory of a configuration file.
pub(crate) const LOCAL_DATA_DIR: &str = "satchel-data";

/// The configuration file of a service of this machine.
pub(crate) const SYSTEM_FILE: &str = "/etc/satchel/satchel.yaml";

/// Where the data is of a service whose configuration doesn't say it.
const SYSTEM_DATA_DIR: &str = "/var/lib/satchel";

/// A non-empty environment variable.
pub(crate) fn variable<'a>(environment: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    let value = environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str());
    value.filter(|value| !value.is_empty())
}

/// The configuration file: `--config`, `SATCHEL_CONFIG`, `./satchel.yaml`, `satchel/satchel.yaml` in the XDG
/// configuration directory, [`SYSTEM_FILE`]; the first that is named or exists. A named one is read even if it doesn't
/// exist, so that a typo is an error and not another configuration.
pub(crate) fn config_file(named: Option<&Path>, environment: &[(OsString, OsString)], cwd: &Path) -> Option<PathBuf> {
    find_config_file(named, environment, cwd, Path::new(SYSTEM_FILE))
}

/// As [`config_file`], with another file of the service.
pub(crate) fn find_config_file(
    named: Option<&Path>,
    environment: &[(OsString, OsString)],
    cwd: &Path,
    system_file: &Path,
) -> Option<PathBuf> {
    if let Some(named) = named_file(named, environment) {
        return Some(named.to_owned());
    }
    if cwd.join(FILE_NAME).is_file() {
        return Some(PathBuf::from(FILE_NAME));
    }
    if let Some(user_file) = user_file(environment).filter(|file| file.is_file()) {
        return Some(user_file);
    }
    // A person who may not read it has a Satchel of their own.
    File::open(system_file).is_ok().then(|| system_file.to_owned())
}

/// The configuration file that is named, and not looked for: `--config`, `SATCHEL_CONFIG`.
pub(crate) fn named_file<'a>(named: Option<&'a Path>, environment: &'a [(OsString, OsString)]) -> Option<&'a Path> {
    named.or_else(|| variable(environment, CONFIG_VARIABLE).map(Path::new))
}

/// The configuration file of a user.
fn user_file(environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    Some(xdg_dir(environment, "XDG_CONFIG_HOME", ".config")?.join("satchel").join(FILE_NAME))
}

/// The default data directory: that of the service with the configuration of the service. With another file that is named,
/// `satchel-data` beside that, so that a command means the same data wherever it is started. Otherwise `./satchel-data` in a
/// directory of Satchel's own (with a `satchel-data` or a `satchel.yaml`), else the XDG data directory, so that `satchel`
/// finds the same conversations from anywhere. Without a home it is `./satchel-data`, too. The user's own file has the same
/// data whether it is named or found.
pub(crate) fn data_dir(named: Option<&Path>, environment: &[(OsString, OsString)], cwd: &Path) -> PathBuf {
    if config_file(named, environment, cwd).as_deref() == Some(Path::new(SYSTEM_FILE)) {
        return PathBuf::from(SYSTEM_DATA_DIR);
    }
    if let Some(file) = named_file(named, environment).map(|file| cwd.join(file))
        && user_file(environment).is_none_or(|user_file| user_file != file)
    {
        return file.with_file_name(LOCAL_DATA_DIR);
    }
    let local = cwd.join(LOCAL_DATA_DIR);
    if local.is_dir() || cwd.join(FILE_NAME).is_file() {
        return local;
    }
    xdg_dir(environment, "XDG_DATA_HOME", ".local/share").map_or(local, |dir| dir.join("satchel"))
}

/// Every directory that [`data_dir`] may choose from this working directory, and that of the service.
pub(crate) fn default_data_dirs(environment: &[(OsString, OsString)], cwd: &Path) -> Vec<PathBuf> {
    let xdg_data_dir = xdg_dir(environment, "XDG_DATA_HOME", ".local/share").map(|dir| dir.join("satchel"));
    std::iter::once(cwd.join(LOCAL_DATA_DIR)).chain(xdg_data_dir).chain([PathBuf::from(SYSTEM_DATA_DIR)]).collect()
}

/// A directory by the XDG base directory specification, which says that relative values are ignored.
fn xdg_dir(environment: &[(OsString, OsString)], name: &str, beneath_home: &str) -> Option<PathBuf> {
    let absolute_path = |name| variable(environment, name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute_path(name).or_else(|| absolute_path("HOME").map(|home| home.join(beneath_home)))
}
