//! Where everything is kept: `storage`, `workspace`, `bus`.

use std::path::{Path, PathBuf};

use satchel_blobs_s3::{S3Settings, S3SettingsError};
use satchel_domain::DiskReserve;
use satchel_nats::{ClientCertificate, NatsLogin, NatsSettings};
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{
    leaf::{
        Leaf, ReadFile,
        address::FilePath,
        amount::{Size, SizeOrZero},
        leaf,
        secret::{Secret, mask_url, read_secret},
    },
    paths::DefaultPaths,
    resolver::Resolver,
};

/// Where everything is kept.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StorageConfig {
    /// The directory for everything that has no place of its own. By default `/var/lib/satchel` with
    /// `/etc/satchel/satchel.yaml`, and `satchel-data` beside another file that `--config` or `SATCHEL_CONFIG` names; without
    /// one `./satchel-data` if that or `./satchel.yaml` exists, else `satchel` in the XDG data directory.
    data_dir: Option<FilePath>,
    /// The database: `sqlite:DIRECTORY/satchel.db`, or `postgres://USER:PASSWORD@HOST/DATABASE` with libpq's parameters.
    #[schemars(extend("x-default" = "sqlite: in the data directory"))]
    pub database_url: Option<DatabaseBackend>,
    /// Where the bytes of files are kept: `file:DIRECTORY`, or `s3://BUCKET/PREFIX?region=…&endpoint=…`. Keys, region and
    /// endpoint may also be in `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION` and `AWS_ENDPOINT_URL`.
    #[schemars(extend("x-default" = "file: in the data directory"))]
    pub blobs_url: Option<BlobBackend>,
    /// A file with the certificates (PEM) of authorities that a bucket's server may have its certificate from, besides those
    /// that this machine trusts; or `AWS_CA_BUNDLE`.
    pub blobs_ca_file: Option<FilePath>,
    /// How much of the disk stays free for the database: files that would use it are refused. 0 keeps nothing free.
    #[schemars(extend("x-default" = "1GiB or 5 % of the disk, whichever is less"))]
    reserve: Option<SizeOrZero>,
    #[serde(skip)]
    default_data_dir: PathBuf,
    #[serde(skip)]
    earlier_data_dirs: Vec<PathBuf>,
    /// The bucket that `blobs_url` names, with what the environment says of it.
    #[serde(skip)]
    bucket: Option<Result<S3Settings, S3SettingsError>>,
}

/// The directories that tools work in.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkspaceConfig {
    /// One directory that is `/shared` in every conversation.
    #[schemars(extend("x-default" = "one for each conversation"))]
    pub shared_dir: Option<FilePath>,
    /// The most bytes that one conversation may save; directories and empty files count as 4 KB each.
    pub quota: Size,
}

/// What carries events between processes.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BusConfig {
    /// `local:` is the process itself. `nats://HOST` or, with TLS, `tls://HOST` is a NATS server with JetStream.
    #[schemars(extend("x-default" = "local:"))]
    pub url: Option<BusBackend>,
    /// A file with the certificates (PEM) of the authorities that the server's certificate must come from, instead of those
    /// that this machine trusts.
    pub ca_file: Option<FilePath>,
    /// The content of a NATS credentials file, with a JWT and the seed of its key; best as `credentials_file`.
    pub credentials: Option<Secret>,
    /// The seed of a NATS user's key, which begins with SU; best as `nkey_file`.
    pub nkey: Option<Secret>,
    /// A certificate (PEM) that proves to the server who this process is.
    pub client_certificate_file: Option<FilePath>,
    /// The key (PEM) of that certificate.
    pub client_key_file: Option<FilePath>,
}

/// Which database holds the ledger.
#[derive(Debug)]
pub enum DatabaseBackend {
    /// SQLite, as `satchel.db` in this directory, which also holds the locks of running processes.
    Sqlite { directory: PathBuf },
    /// A PostgreSQL server; the URL may hold a password.
    Postgres(SecretString),
}

/// What holds the bytes of files.
#[derive(Debug)]
pub enum BlobBackend {
    Directory(PathBuf),
    /// A bucket; the URL may hold credentials.
    S3(SecretString),
}

#[derive(Debug)]
pub enum BusBackend {
    Local,
    /// A NATS server; the URL may hold a password.
    Nats(SecretString),
}

leaf!(DatabaseBackend);
leaf!(BlobBackend);
leaf!(BusBackend);

impl Leaf for DatabaseBackend {
    const KIND: &'static str = "database-url";
    const EXPECTED: &'static str = "`sqlite:DIRECTORY/satchel.db` or a URL that begins with postgres://";
    const IS_SECRET: bool = true;
    const PATH_SCHEME: Option<&'static str> = Some("sqlite:");
    const READ_FILE: Option<ReadFile> = Some(read_secret);

    fn schema() -> Json {
        json!({ "type": "string", "pattern": r"^(sqlite:.*satchel\.db|postgres(ql)?://.+)$" })
    }

    /// The ledger's file has a fixed name, because other processes look for it and for the locks beside it.
    fn parse(url: &str, base: &Path) -> Option<Self> {
        match url.split_once(':')? {
            ("sqlite", path) => {
                let directory = base.join(local_path(path)?.strip_suffix("satchel.db")?);
                Some(Self::Sqlite { directory })
            }
            ("postgres" | "postgresql", rest) if has_host(rest) => Some(Self::Postgres(SecretString::from(url))),
            _ => None,
        }
    }

    fn show_text(url: &str, base: &Path) -> Option<Json> {
        Self::parse(url, base).map(|_| json!(mask_url(url)))
    }
}

impl Leaf for BlobBackend {
    const KIND: &'static str = "blobs-url";
    const EXPECTED: &'static str = "`file:PATH` or a URL that begins with s3://";
    const IS_SECRET: bool = true;
    const PATH_SCHEME: Option<&'static str> = Some("file:");
    const READ_FILE: Option<ReadFile> = Some(read_secret);

    fn schema() -> Json {
        json!({ "type": "string", "pattern": r"^(file:.+|s3://.+)$" })
    }

    fn parse(url: &str, base: &Path) -> Option<Self> {
        match url.split_once(':')? {
            ("file", path) => Some(Self::Directory(base.join(local_path(path)?))),
            ("s3", rest) if has_host(rest) => Some(Self::S3(SecretString::from(url))),
            _ => None,
        }
    }

    fn show_text(url: &str, base: &Path) -> Option<Json> {
        Self::parse(url, base).map(|_| json!(mask_url(url)))
    }
}

impl Leaf for BusBackend {
    const KIND: &'static str = "bus-url";
    const EXPECTED: &'static str = "`local:` or a URL that begins with nats:// or tls://";
    const IS_SECRET: bool = true;
    const READ_FILE: Option<ReadFile> = Some(read_secret);

    fn schema() -> Json {
        json!({ "type": "string", "pattern": r"^(local:|(nats|tls)://.+)$" })
    }

    fn parse(url: &str, _: &Path) -> Option<Self> {
        match url.split_once(':')? {
            ("local", "") => Some(Self::Local),
            ("nats" | "tls", rest) if has_host(rest) => Some(Self::Nats(SecretString::from(url))),
            _ => None,
        }
    }

    fn show_text(url: &str, base: &Path) -> Option<Json> {
        Self::parse(url, base).map(|_| json!(mask_url(url)))
    }
}

impl Default for WorkspaceConfig {
    fn default() -> Self {
        Self { shared_dir: None, quota: Size(2 << 30) }
    }
}

impl BusConfig {
    /// How the NATS server is reached, if there is one.
    #[must_use]
    pub fn nats(&self) -> Option<NatsSettings> {
        let Some(BusBackend::Nats(url)) = &self.url else { return None };
        let path = |file: &Option<FilePath>| file.as_ref().map(|file| file.0.clone());
        let certificate = path(&self.client_certificate_file).zip(path(&self.client_key_file));
        let credentials = self.credentials.clone().map(|Secret(content)| NatsLogin::Credentials(content));
        let nkey = self.nkey.clone().map(|Secret(seed)| NatsLogin::Nkey(seed));
        Some(NatsSettings {
            ca_file: path(&self.ca_file),
            client_certificate: certificate
                .map(|(certificate_file, key_file)| ClientCertificate { certificate_file, key_file }),
            login: credentials.or(nkey),
            ..NatsSettings::new(url.clone())
        })
    }

    pub(super) fn resolve(&self, resolver: &mut Resolver<'_>) {
        let nats = self.nats();
        let logins = [
            ("bus.nkey", self.nkey.is_some()),
            ("bus.credentials", self.credentials.is_some()),
            ("bus.url", nats.as_ref().is_some_and(NatsSettings::has_login)),
        ];
        let given: Vec<_> = logins.into_iter().filter(|(_, is_given)| *is_given).map(|(key, _)| key).collect();
        if let [key, other, ..] = given[..] {
            resolver.report(key, format!("`{key}` and the login of `{other}` can't both be used; remove one"));
        }
        match (&self.client_certificate_file, &self.client_key_file) {
            (Some(_), None) => {
                let message = "`bus.client_certificate_file` needs its key: set `bus.client_key_file`";
                resolver.report("bus.client_certificate_file", message.to_owned());
            }
            (None, Some(_)) => {
                let message = "`bus.client_key_file` needs its certificate: set `bus.client_certificate_file`";
                resolver.report("bus.client_key_file", message.to_owned());
            }
            _ => {}
        }
    }
}

impl StorageConfig {
    /// The directory that holds everything that has no place of its own.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        self.data_dir.as_ref().map_or(&self.default_data_dir, |directory| &directory.0)
    }

    /// Where earlier versions kept the data by default; nowhere if the data directory is given.
    pub(crate) fn earlier_data_dirs(&self) -> &[PathBuf] {
        if self.data_dir.is_some() { &[] } else { &self.earlier_data_dirs }
    }

    /// How much of each disk stays free of files.
    #[must_use]
    pub fn reserve(&self) -> DiskReserve {
        self.reserve.map_or(DiskReserve::Standard, |size| DiskReserve::Bytes(size.0))
    }

    /// The bucket for the bytes of files, if they are in one.
    ///
    /// # Errors
    /// When its region or its credentials are missing.
    pub fn bucket(&self) -> Result<Option<&S3Settings>, S3SettingsError> {
        self.bucket.as_ref().map(Result::as_ref).transpose().map_err(Clone::clone)
    }

    /// Sets where the data is with this configuration file if nothing says it.
    pub(super) fn set_default_dirs(&mut self, paths: &DefaultPaths<'_>, file: Option<&Path>) {
        self.default_data_dir = paths.data_dir(file);
        self.earlier_data_dirs = paths.earlier_data_dirs(file);
    }

    pub(super) fn resolve(&mut self, resolver: &mut Resolver<'_>) {
        if let Some(BlobBackend::S3(url)) = &self.blobs_url {
            let url = url.expose_secret();
            match S3Settings::check_url(url) {
                Err(error) => {
                    resolver.report("storage.blobs_url", format!("`storage.blobs_url` is not valid: {error}"))
                }
                Ok(()) => {
                    let variable = |name: &str| resolver.variable(name).map(str::to_owned);
                    let settings = S3Settings::parse(url, variable);
                    self.bucket = Some(match &self.blobs_ca_file {
                        Some(file) => settings.map(|settings| settings.with_ca_file(file.0.clone())),
                        None => settings,
                    });
                }
            }
        }
        resolver.show_default("storage.data_dir", json!(self.data_dir().display().to_string()));
    }
}

/// The path of a `sqlite:` or `file:` URL, with or without the slashes of an empty host.
fn local_path(rest: &str) -> Option<&str> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    (!path.is_empty()).then_some(path)
}

fn has_host(rest: &str) -> bool {
    rest.len() > 2 && rest.starts_with("//")
}
