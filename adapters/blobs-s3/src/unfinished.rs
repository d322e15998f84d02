//! What an upload leaves when it ends before its time: taken away at once, or by a later sweep of any machine.

use std::{sync::Arc, time::Duration};

use object_store::{
    MultipartId,
    aws::AwsAuthorizer,
    client::{HttpRequest, HttpRequestBody},
    multipart::MultipartStore,
    path::Path,
};
use reqwest::{Response, Url};
use tokio::{runtime::Handle, time::timeout};

use crate::{
    bucket::{BucketClient, INCOMING},
    connector::max_answer_bytes,
    error::{BucketError, between},
};

/// How long the removal of what is left may keep an upload that failed.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(10);

/// The most pages that one look at the unfinished uploads reads: what is beyond is for the next.
const MAX_PAGES: usize = 100;

/// What exists in the bucket of an upload that is not complete. It is removed when this is dropped, unless the upload is
/// [complete](Self::complete).
pub(crate) struct UnfinishedUpload {
    bucket: Arc<BucketClient>,
    written: UploadLeftovers,
}

#[derive(Default)]
struct UploadLeftovers {
    keys: Vec<Path>,
    multipart: Option<(Path, MultipartId)>,
}

impl UnfinishedUpload {
    pub(crate) fn new(bucket: Arc<BucketClient>) -> Self {
        Self { bucket, written: UploadLeftovers::default() }
    }

    /// Notes an object before it is written.
    pub(crate) fn add_key(&mut self, key: &Path) {
        self.written.keys.push(key.clone());
    }

    /// Notes an upload in parts.
    pub(crate) fn set_multipart(&mut self, key: &Path, id: &MultipartId) {
        self.written.multipart = Some((key.clone(), id.clone()));
    }

    /// Notes that the parts have become an object.
    pub(crate) fn close_multipart(&mut self) {
        self.written.multipart = None;
    }

    /// Keeps what was written.
    pub(crate) fn complete(mut self) {
        self.written = UploadLeftovers::default();
    }

    /// Removes what was written, as far as that is possible now.
    pub(crate) async fn remove(mut self) {
        let written = std::mem::take(&mut self.written);
        if timeout(CLEANUP_TIMEOUT, remove_leftovers(&self.bucket, written)).await.is_err() {
            tracing::warn!("removing what is left of an upload took too long; a later sweep removes it");
        }
    }
}

impl Drop for UnfinishedUpload {
    fn drop(&mut self) {
        let written = std::mem::take(&mut self.written);
        if written.keys.is_empty() && written.multipart.is_none() {
            return;
        }
        let bucket = Arc::clone(&self.bucket);
        // Without a runtime the process is about to end; a later sweep removes it.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { remove_leftovers(&bucket, written).await });
        }
    }
}

async fn remove_leftovers(bucket: &BucketClient, written: UploadLeftovers) {
    let UploadLeftovers { keys, multipart } = written;
    if let Some((key, id)) = multipart
        && let Err(error) = bucket.store.abort_multipart(&key, &id).await
    {
        tracing::warn!(error = %bucket.error(&error), "ending an upload failed; a later sweep removes its parts");
    }
    for key in keys {
        if let Err(error) = bucket.delete(&key).await {
            tracing::warn!(error = %bucket.error(&error), "removing what is left of an upload failed; a later sweep removes it");
        }
    }
}

impl BucketClient {
    /// Lists the uploads in parts that are neither complete nor aborted, below `incoming`.
    pub(crate) async fn list_multiparts(&self) -> Result<Vec<(Path, MultipartId)>, BucketError> {
        let mut found = Vec::new();
        let mut page = UploadsPage::default();
        for _ in 0..MAX_PAGES {
            page = self.list_page(&page).await?;
            for (key, id) in std::mem::take(&mut page.uploads) {
                // Servers escape keys in different ways; the last part of ours needs none.
                let name = key.rsplit('/').next().unwrap_or_default();
                found.push((self.folder(INCOMING).join(name), id));
            }
            if !page.is_truncated {
                break;
            }
        }
        Ok(found)
    }

    async fn list_page(&self, after: &UploadsPage) -> Result<UploadsPage, BucketError> {
        let failed = || BucketError::passing(&self.address, "doesn't list the unfinished uploads");
        let prefix = format!("{}/", self.folder(INCOMING));
        let mut query = vec![("uploads", ""), ("prefix", prefix.as_str())];
        query.extend(after.next_key.as_deref().map(|marker| ("key-marker", marker)));
        query.extend(after.next_id.as_deref().map(|marker| ("upload-id-marker", marker)));
        let url = Url::parse_with_params(&self.url, query).map_err(|_| failed())?;
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = url.as_str().parse().map_err(|_| failed())?;
        let credential = self.store.credentials().get_credential().await.map_err(|error| self.error(&error))?;
        let authorizer = AwsAuthorizer::new(&credential, "s3", &self.region);
        authorizer.try_authorize(&mut request, None).map_err(|error| self.error(&error))?;
        let response = self.http.get(url).headers(request.headers().clone()).send().await.map_err(|_| failed())?;
        let status = response.status();
        let text = read_text(response).await.ok_or_else(failed)?;
        match status.is_success() {
            true => Ok(UploadsPage::parse(&text)),
            false => Err(BucketError::from_answer(Some(status.as_u16()), &text, &self.address)
                .with_need("listing unfinished uploads needs the permission s3:ListBucketMultipartUploads")),
        }
    }
}

/// The text of a response; `None` if it is interrupted or too long.
async fn read_text(mut response: Response) -> Option<String> {
    let limit = max_answer_bytes(response.status());
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        if body.len() + chunk.len() > limit {
            return None;
        }
        body.extend_from_slice(&chunk);
    }
    Some(String::from_utf8_lossy(&body).into_owned())
}

/// A page of the list of unfinished uploads.
#[derive(Debug, Default, PartialEq, Eq)]
struct UploadsPage {
    /// Keys and ids.
    uploads: Vec<(String, MultipartId)>,
    is_truncated: bool,
    next_key: Option<String>,
    next_id: Option<String>,
}

impl UploadsPage {
    /// Reads `ListMultipartUploadsResult`. Neither our keys nor ids have characters that XML escapes.
    fn parse(xml: &str) -> Self {
        let value = |text: &str, element: &str| {
            let found = between(text, &format!("<{element}>"), &format!("</{element}>"));
            found.filter(|value| !value.is_empty()).map(str::to_owned)
        };
        let uploads = xml.split("<Upload>").skip(1);
        let uploads = uploads.filter_map(|upload| Some((value(upload, "Key")?, value(upload, "UploadId")?)));
        let (next_key, next_id) = (value(xml, "NextKeyMarker"), value(xml, "NextUploadIdMarker"));
        let is_truncated = next_key.is_some() && value(xml, "IsTruncated").is_some_and(|truncated| truncated == "true");
        Self { uploads: uploads.collect(), is_truncated, next_key, next_id }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_of_uploads_is_read_in_any_order() {
        let page = UploadsPage::parse(
            "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>p/incoming/b</NextKeyMarker>\
             <NextUploadIdMarker>2</NextUploadIdMarker><Upload><Key>p/incoming/a</Key><UploadId>1</UploadId></Upload>\
             <Upload><UploadId>2</UploadId><Key>p/incoming/b</Key></Upload></ListMultipartUploadsResult>",
        );
        let upload = |key: &str, id: &str| (key.to_owned(), id.to_owned());
        assert_eq!(page.uploads, [upload("p/incoming/a", "1"), upload("p/incoming/b", "2")]);
        assert!(page.is_truncated);
        assert_eq!((page.next_key.as_deref(), page.next_id.as_deref()), (Some("p/incoming/b"), Some("2")));

        let empty =
            "<ListMultipartUploadsResult><KeyMarker/><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>";
        assert_eq!(UploadsPage::parse(empty), UploadsPage::default());
        assert_eq!(UploadsPage::parse("<html>not S3</html>"), UploadsPage::default());
    }
}
