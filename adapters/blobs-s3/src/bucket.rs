//! The requests to a bucket, and how its objects are named.

use std::{sync::Arc, time::Duration};

use futures::TryStreamExt;
use object_store::{
    BackoffConfig, Certificate, ClientOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder},
    path::Path,
};
use satchel_domain::Sha256;
use satchel_ports::BlobError;
use secrecy::ExposeSecret;
use uuid::Uuid;

use crate::{connector::BucketConnector, error::BucketError, settings::S3Settings};

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a request may wait for the next bytes, the sending of a part included.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// The objects with the bytes of blobs, each as `blobs/<sha256>/<id>`.
pub(crate) const BLOBS: &str = "blobs";
/// Objects on their way in, each as `incoming/<id>`; their address is not known yet.
pub(crate) const INCOMING: &str = "incoming";
/// Empty objects that name objects of `blobs` that are to be removed.
pub(crate) const MARKED: &str = "marked";

/// A bucket and the beginning of Satchel's keys in it.
#[derive(Debug)]
pub(crate) struct BucketClient {
    pub(crate) store: AmazonS3,
    /// For the one request that the library doesn't make.
    pub(crate) http: reqwest::Client,
    pub(crate) prefix: Path,
    /// Where the bucket itself is.
    pub(crate) url: String,
    pub(crate) region: String,
    /// The bucket and its server, for messages.
    pub(crate) address: String,
}

/// When the server wrote something, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServerTime(pub(crate) i64);

impl ServerTime {
    /// How long before this another time was; zero for one after it.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl BucketClient {
    pub(crate) fn new(settings: &S3Settings) -> Result<Arc<Self>, BucketError> {
        // The first provider that is installed applies to the whole process.
        let _already = rustls::crypto::ring::default_provider().install_default();
        let address = settings.address();
        let is_plain_http = settings.endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://"));
        let certificates = settings.ca_file.as_deref().map(read_certificates).transpose()?;
        let mut client = ClientOptions::new()
            .with_allow_http(is_plain_http)
            .with_connect_timeout(CONNECT_TIMEOUT)
            // A large blob may take as long as it takes; each piece of it may not.
            .with_timeout_disabled()
            .with_read_timeout(READ_TIMEOUT);
        let mut http = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).timeout(READ_TIMEOUT);
        if let Some(TrustedCertificates { of_store, of_http }) = certificates {
            client = of_store.into_iter().fold(client, ClientOptions::with_root_certificate);
            http = http.tls_certs_merge(of_http);
        }
        let backoff = BackoffConfig {
            init_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(5),
            ..BackoffConfig::default()
        };
        let retry = RetryConfig { backoff, max_retries: usize::MAX, retry_timeout: settings.retry_timeout };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&settings.bucket)
            .with_region(&settings.region)
            .with_client_options(client)
            .with_retry(retry)
            .with_http_connector(BucketConnector)
            // Servers that imitate S3 don't all have it.
            .with_disable_bulk_delete(true);
        if let Some(endpoint) = &settings.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(keys) = &settings.credentials {
            builder = builder.with_access_key_id(&keys.key_id).with_secret_access_key(keys.secret.expose_secret());
            if let Some(token) = &keys.token {
                builder = builder.with_token(token.expose_secret());
            }
        }
        let store = builder.build().map_err(|error| BucketError::new(&error, &address))?;
        let http =
            http.build().map_err(|_| BucketError::passing(&address, "can't be reached: no client can be made"))?;
        let (prefix, region) = (settings.prefix.clone(), settings.region.clone());
        Ok(Arc::new(Self { store, http, prefix, url: settings.bucket_url(), region, address }))
    }

    pub(crate) fn error(&self, error: &object_store::Error) -> BucketError {
        BucketError::new(error, &self.address)
    }

    /// The error of a port's verb that was doing something to something.
    pub(crate) fn blob_error(&self, operation: impl Into<String>, error: &object_store::Error) -> BlobError {
        BlobError::Store { operation: operation.into(), source: self.error(error).into() }
    }

    /// The key of a folder below the prefix.
    pub(crate) fn folder(&self, name: &str) -> Path {
        self.prefix.clone().join(name)
    }

    /// The beginning of the keys of a blob.
    pub(crate) fn blob_folder(&self, sha256: &Sha256) -> Path {
        self.folder(BLOBS).join(sha256.to_string())
    }

    /// A new key for a blob: ids of one process rise.
    pub(crate) fn new_blob_key(&self, sha256: &Sha256) -> Path {
        self.blob_folder(sha256).join(Uuid::now_v7().to_string())
    }

    /// A new key for bytes on their way in.
    pub(crate) fn new_incoming_key(&self) -> Path {
        self.folder(INCOMING).join(Uuid::now_v7().to_string())
    }

    /// The objects of a blob, the newest last. Times have a second's resolution, so the id decides between equal ones.
    pub(crate) async fn list_copies(&self, sha256: &Sha256) -> object_store::Result<Vec<ObjectMeta>> {
        let folder = self.blob_folder(sha256);
        let mut copies: Vec<ObjectMeta> = self.store.list(Some(&folder)).try_collect().await?;
        copies.sort_by(|a, b| (a.last_modified, &a.location).cmp(&(b.last_modified, &b.location)));
        Ok(copies)
    }

    /// Removes an object; one that is gone already is no error.
    pub(crate) async fn delete(&self, key: &Path) -> object_store::Result<()> {
        match self.store.delete(key).await {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            deleted => deleted,
        }
    }

    /// The server's clock, which gives objects their times: that of a new object. Clocks of machines may differ from it
    /// by hours.
    pub(crate) async fn server_time(&self) -> Result<ServerTime, BucketError> {
        let key = self.new_incoming_key();
        let written = self.store.put(&key, PutPayload::new()).await;
        written.map_err(|error| self.error(&error).with_need("writing needs the permission s3:PutObject"))?;
        let found = self.store.head(&key).await;
        let deleted = self.delete(&key).await;
        let found = found.map_err(|error| self.error(&error).with_need("reading needs the permission s3:GetObject"))?;
        deleted.map_err(|error| self.error(&error).with_need("removing needs the permission s3:DeleteObject"))?;
        Ok(time_of(&found))
    }

    /// Checks that objects can be written, read, listed and removed.
    pub(crate) async fn check(&self) -> Result<(), BucketError> {
        let listed = self.store.list(Some(&self.folder(INCOMING))).try_next().await;
        listed.map_err(|error| self.error(&error).with_need("listing needs the permission s3:ListBucket"))?;
        self.server_time().await.map(drop)
    }
}

/// The certificates of a file, as both clients take them.
struct TrustedCertificates {
    of_store: Vec<Certificate>,
    of_http: Vec<reqwest::Certificate>,
}

/// Reads the certificates of a PEM file.
fn read_certificates(file: &std::path::Path) -> Result<TrustedCertificates, BucketError> {
    let name = file.display();
    let pem = std::fs::read(file)
        .map_err(|error| BucketError::lasting(format!("the certificates in `{name}` can't be read: {error}")))?;
    let invalid = || BucketError::lasting(format!("`{name}` holds no certificates in the form PEM"));
    let of_store = Certificate::from_pem_bundle(&pem).map_err(|_| invalid())?;
    let of_http = reqwest::Certificate::from_pem_bundle(&pem).map_err(|_| invalid())?;
    if of_http.is_empty() {
        return Err(invalid());
    }
    Ok(TrustedCertificates { of_store, of_http })
}

/// When the server wrote an object.
pub(crate) fn time_of(object: &ObjectMeta) -> ServerTime {
    ServerTime(object.last_modified.timestamp_millis())
}
