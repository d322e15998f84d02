//! A server, the store in it, and a second way to look at what is in its bucket.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{
    ObjectStore, ObjectStoreExt, PutPayload,
    aws::{AmazonS3, AmazonS3Builder, AwsAuthorizer},
    client::{HttpRequest, HttpRequestBody},
    multipart::MultipartStore,
    path::Path,
};
use satchel_blobs_s3::{S3Blobs, S3Settings};
use satchel_domain::Sha256;
use satchel_ports::{BlobError, BlobHint, Blobs, ByteStream, StoredBlob};
use satchel_servers::S3Server;

/// Where the tests' store keeps its objects.
pub(crate) const PREFIX: &str = "some/prefix";

pub(crate) struct Stage {
    pub(crate) server: S3Server,
    pub(crate) blobs: Arc<S3Blobs>,
    pub(crate) bucket: RawBucket,
}

/// The bucket, past the store.
pub(crate) struct RawBucket {
    store: AmazonS3,
    url: String,
}

impl Stage {
    /// Starts a server, or says what a test would need.
    pub(crate) async fn start() -> Result<Self, String> {
        let server = S3Server::start().await?;
        let blobs = Arc::new(open(&server.url(PREFIX)));
        let bucket = AmazonS3Builder::new()
            .with_bucket_name(server.bucket())
            .with_region("us-east-1")
            .with_endpoint(server.endpoint())
            .with_allow_http(true)
            .with_access_key_id(&server.writer.key_id)
            .with_secret_access_key(&server.writer.secret)
            .build();
        let url = format!("{}/{}", server.endpoint(), server.bucket());
        Ok(Self { server, blobs, bucket: RawBucket { store: bucket.expect("a client"), url } })
    }
}

impl RawBucket {
    /// The keys below a folder of the store.
    pub(crate) async fn keys(&self, folder: &str) -> Vec<Path> {
        let folder = Path::from(format!("{PREFIX}/{folder}"));
        self.store.list(Some(&folder)).map_ok(|object| object.location).try_collect().await.expect("the server answers")
    }

    /// How many uploads are neither complete nor aborted, anywhere in the bucket.
    pub(crate) async fn count_multiparts(&self) -> usize {
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = format!("{}?uploads=", self.url).parse().expect("a URL");
        let credential = self.store.credentials().get_credential().await.expect("the writer's keys");
        AwsAuthorizer::new(&credential, "s3", "us-east-1").try_authorize(&mut request, None).expect("a signature");
        let client = reqwest::Client::new();
        let listed = client.get(request.uri().to_string()).headers(request.headers().clone()).send().await;
        let listed = listed.expect("an answer").text().await.expect("a text");
        assert!(listed.contains("ListMultipartUploadsResult"), "{listed}");
        listed.matches("<Upload>").count()
    }

    pub(crate) async fn count_leftovers(&self) -> usize {
        self.keys("incoming").await.len() + self.count_multiparts().await
    }

    /// Replaces the one object of a blob by what `change` makes of its bytes.
    pub(crate) async fn change(&self, sha256: &Sha256, change: impl FnOnce(&mut Vec<u8>)) {
        let keys = self.keys(&format!("blobs/{sha256}")).await;
        assert_eq!(keys.len(), 1, "{keys:?}");
        let key = &keys[0];
        let mut content =
            self.store.get(key).await.expect("the server answers").bytes().await.expect("the server answers").to_vec();
        change(&mut content);
        self.store.put(key, content.into()).await.expect("the server answers");
    }

    /// Begins an upload in parts that nobody ends.
    pub(crate) async fn abandon_upload(&self, name: &str) {
        let key = Path::from(format!("{PREFIX}/incoming/{name}"));
        let id = self.store.create_multipart(&key).await.expect("the server answers");
        self.store.put_part(&key, &id, 0, PutPayload::from(vec![1; 10])).await.expect("the server answers");
    }

    pub(crate) async fn put_incoming(&self, name: &str) {
        self.store
            .put(&Path::from(format!("{PREFIX}/incoming/{name}")), PutPayload::from("cut off"))
            .await
            .expect("the server answers");
    }
}

/// The store of a URL, which fails soon.
pub(crate) fn open(url: &str) -> S3Blobs {
    let settings = S3Settings::parse(url, |_| None).expect("the server answers");
    S3Blobs::new(&settings.with_retry_timeout(Duration::from_millis(300))).expect("the server answers")
}

pub(crate) async fn put(blobs: &S3Blobs, content: ByteStream) -> Result<StoredBlob, BlobError> {
    blobs.put(content, &BlobHint::default(), 1 << 30).await
}

pub(crate) async fn read(blobs: &S3Blobs, sha256: &Sha256) -> io::Result<Vec<u8>> {
    let content = blobs.open(sha256, None).await.map_err(io::Error::other)?;
    content.map_ok(|chunk| chunk.to_vec()).try_concat().await
}

/// Reads a blob to its end, and keeps nothing of it.
pub(crate) async fn read_to_end(blobs: &S3Blobs, sha256: &Sha256) -> u64 {
    let content = blobs.open(sha256, None).await.expect("the server answers");
    content.try_fold(0, |sum, chunk| async move { Ok(sum + chunk.len() as u64) }).await.expect("the server answers")
}

/// So many chunks of 64 KiB, no two of which are alike.
pub(crate) fn chunks(count: u32) -> ByteStream {
    let chunk = |n: u32| {
        let mut chunk = vec![7; 64 * 1024];
        chunk[..4].copy_from_slice(&n.to_be_bytes());
        Ok(Bytes::from(chunk))
    };
    stream::iter(0..count).map(chunk).boxed()
}
