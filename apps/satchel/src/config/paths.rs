//! The default paths of the configuration file and of the data.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    path::{Path, PathBuf},
};

use satchel_ledger_sqlite::has_database;

use super::CONFIG_VARIABLE;

/// The name of the configuration file.
pub(crate) const FILE_NAME: &str = "satchel.yaml";

/// The data directory in the directory of a configuration file.
pub(crate) const LOCAL_DATA_DIR: &str = "satchel-data";

/// The configuration file of a service of this machine.
pub(crate) const SYSTEM_FILE: &str = "/etc/satchel/satchel.yaml";

/// Where the data is of a service whose configuration doesn't say it.
const SYSTEM_DATA_DIR: &str = "/var/lib/satchel";

/// The configuration file and the data directory of a service of this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServicePaths<'a> {
    pub(crate) file: &'a Path,
    /// Where the data is if the configuration doesn't say it.
    pub(crate) data_dir: &'a Path,
}

impl ServicePaths<'static> {
    /// Those of a real machine.
    pub(crate) fn of_machine() -> Self {
        Self { file: Path::new(SYSTEM_FILE), data_dir: Path::new(SYSTEM_DATA_DIR) }
    }
}

/// What the default paths depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DefaultPaths<'a> {
    /// The file that `--config` names.
    pub(crate) option: Option<&'a Path>,
    pub(crate) environment: &'a [(OsString, OsString)],
    pub(crate) cwd: &'a Path,
    pub(crate) service: ServicePaths<'a>,
}

impl<'a> DefaultPaths<'a> {
    /// The configuration file: `--config`, `SATCHEL_CONFIG`, `./satchel.yaml`, `satchel/satchel.yaml` in the XDG
    /// configuration directory, that of the service; the first that is named or exists. A named one is read even if it
    /// doesn't exist, so that a typo is an error and not another configuration.
    pub(crate) fn config_file(&self) -> Option<PathBuf> {
        if let Some(named) = self.named_file() {
            return Some(named.to_owned());
        }
        if self.cwd.join(FILE_NAME).is_file() {
            return Some(PathBuf::from(FILE_NAME));
        }
        if let Some(user_file) = self.user_file().filter(|file| file.is_file()) {
            return Some(user_file);
        }
        // A person who may not read it, or has data already, has a Satchel of their own.
        let is_meant = !self.has_own_data() && File::open(self.service.file).is_ok();
        is_meant.then(|| self.service.file.to_owned())
    }

    /// The configuration file that is named, and not looked for: `--config`, `SATCHEL_CONFIG`.
    pub(crate) fn named_file(&self) -> Option<&'a Path> {
        self.option.or_else(|| variable(self.environment, CONFIG_VARIABLE).map(Path::new))
    }

    /// Whether this path, which may be relative, is the configuration file of the service.
    pub(crate) fn is_service_file(&self, file: &Path) -> bool {
        is_same_path(&self.cwd.join(file), self.service.file)
    }

    /// The default data directory with this configuration file: that of the service with the file of the service. With
    /// another file that is named, `satchel-data` beside that, so that a command means the same data wherever it is started.
    /// The user's own file has the XDG data directory where it is named, and in its own directory. Otherwise
    /// `./satchel-data` in a directory of Satchel's own (with a `satchel-data` or a `satchel.yaml`), else the XDG data
    /// directory, so that `satchel` finds the same conversations from anywhere. Without a home it is `./satchel-data`, too.
    pub(crate) fn data_dir(&self, file: Option<&Path>) -> PathBuf {
        let Some(file) = self.named_file().or(file).map(|file| self.cwd.join(file)) else {
            return self.data_dir_without_file();
        };
        if self.is_service_file(&file) {
            return self.service.data_dir.to_owned();
        }
        let is_users = self.user_file().is_some_and(|user_file| is_same_path(&file, &user_file));
        let is_users_directory = is_users && is_same_path(&file, &self.cwd.join(FILE_NAME));
        if self.named_file().is_none() && !is_users_directory {
            return self.data_dir_without_file();
        }
        let user_data_dir = user_data_dir(self.environment).filter(|_| is_users);
        user_data_dir.unwrap_or_else(|| file.with_file_name(LOCAL_DATA_DIR))
    }

    /// Where earlier versions kept the data of what has this configuration file now: they went by the working directory and
    /// the home, whichever file was named. The unit of a service started them in its data directory, which was its home.
    /// Where another configuration keeps its data by default, the data is that one's.
    pub(crate) fn earlier_data_dirs(&self, file: Option<&Path>) -> Vec<PathBuf> {
        let data_dir = self.data_dir(file);
        let mut directories = vec![self.data_dir_without_file()];
        if data_dir == self.service.data_dir {
            directories.extend([LOCAL_DATA_DIR, ".local/share/satchel"].map(|name| data_dir.join(name)));
        }
        let of_others = self.data_dirs_of_other_files(file);
        directories.retain(|directory| *directory != data_dir && !of_others.contains(directory));
        directories
    }

    /// The default data directories of the other configuration files that exist: the working directory's, the user's and the
    /// service's.
    fn data_dirs_of_other_files(&self, file: Option<&Path>) -> Vec<PathBuf> {
        let used = self.named_file().or(file).map(|file| self.cwd.join(file));
        let is_other = |file: &Path| file.is_file() && used.as_ref().is_none_or(|used| !is_same_path(used, file));
        let data_dir_of = |file: Option<PathBuf>, data_dir: Option<PathBuf>| {
            data_dir.filter(|_| file.is_some_and(|file| is_other(&file)))
        };
        let directories = [
            data_dir_of(Some(self.cwd.join(FILE_NAME)), Some(self.cwd.join(LOCAL_DATA_DIR))),
            data_dir_of(self.user_file(), user_data_dir(self.environment)),
            data_dir_of(Some(self.service.file.to_owned()), Some(self.service.data_dir.to_owned())),
        ];
        directories.into_iter().flatten().collect()
    }

    /// Every directory that [`Self::data_dir`] may choose from this working directory, and that of the service.
    pub(crate) fn default_data_dirs(&self) -> Vec<PathBuf> {
        self.own_data_dirs().chain([self.service.data_dir.to_owned()]).collect()
    }

    /// The default data directory without a file that is named.
    fn data_dir_without_file(&self) -> PathBuf {
        let local = self.cwd.join(LOCAL_DATA_DIR);
        if local.is_dir() || self.cwd.join(FILE_NAME).is_file() {
            return local;
        }
        user_data_dir(self.environment).unwrap_or(local)
    }

    /// The configuration file of a user.
    fn user_file(&self) -> Option<PathBuf> {
        Some(xdg_dir(self.environment, "XDG_CONFIG_HOME", ".config")?.join("satchel").join(FILE_NAME))
    }

    /// The data directories of a person who has no configuration.
    fn own_data_dirs(&self) -> impl Iterator<Item = PathBuf> {
        std::iter::once(self.cwd.join(LOCAL_DATA_DIR)).chain(user_data_dir(self.environment))
    }

    /// Whether a person has a Satchel of their own, without a configuration. What is in the service's directory is the
    /// service's, and what this person may not look at is somebody else's.
    fn has_own_data(&self) -> bool {
        let mut own = self.own_data_dirs().filter(|directory| !directory.starts_with(self.service.data_dir));
        own.any(|directory| has_database(&directory).is_ok_and(|has_one| has_one))
    }
}

/// A non-empty environment variable.
pub(crate) fn variable<'a>(environment: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    let value = environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str());
    value.filter(|value| !value.is_empty())
}

/// The data directory in a user's home.
pub(crate) fn user_data_dir(environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    xdg_dir(environment, "XDG_DATA_HOME", ".local/share").map(|directory| directory.join("satchel"))
}

/// A directory by the XDG base directory specification, which says that relative values are ignored.
fn xdg_dir(environment: &[(OsString, OsString)], name: &str, beneath_home: &str) -> Option<PathBuf> {
    let absolute_path = |name| variable(environment, name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute_path(name).or_else(|| absolute_path("HOME").map(|home| home.join(beneath_home)))
}

/// Whether two paths name one entry of one directory, which needn't exist yet.
fn is_same_path(left: &Path, right: &Path) -> bool {
    let directory = |path: &Path| path.parent()?.canonicalize().ok();
    let is_one_directory = || directory(left).is_some_and(|left| directory(right) == Some(left));
    left == right || left.file_name() == right.file_name() && is_one_directory()
}
