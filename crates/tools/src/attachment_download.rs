//! `attachment.download`: puts every file of the person's last message that had any into a directory, named by its
//! content. The model names no file and no address.

mod extension;
mod sources;

use std::collections::HashMap;

use async_trait::async_trait;
use futures::StreamExt;
use satchel_domain::{Filename, Sha256, ToolOutcome, WorkspacePath, size::format_bytes};
use satchel_ports::{
    BlobError, BlobHint, FetchRequest, FetcherError, HostPolicy, SafetyTier, Tool, ToolContext, ToolError, ToolSpec,
    WorkspaceError, WriteMode,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::Digest;

use self::sources::{ByteSource, DownloadItem, StoredBytes};
use crate::{
    ToolServices,
    arguments::{parse_arguments, tool_spec},
    error,
};

/// Where Discord keeps what people send.
const DISCORD_FILE_HOSTS: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];

/// How many digits of a content's address name its file.
const NAME_DIGITS: usize = 10;

pub(crate) struct AttachmentDownload(pub(crate) ToolServices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Arguments {
    /// The directory to write to, beneath /shared (kept) or /tmp; docs is /shared/docs. It is created if it is missing.
    #[serde(default = "default_dir")]
    #[schemars(with = "String")]
    download_dir: WorkspacePath,
}

fn default_dir() -> WorkspacePath {
    "~/Downloads".parse().expect("it lies beneath a mount")
}

/// The answer for one file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DownloadResult {
    path: WorkspacePath,
    sha10: String,
    bytes: u64,
    source_url: String,
    mime_type: String,
    filename: Filename,
}

#[async_trait]
impl Tool for AttachmentDownload {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "attachment.download",
            SafetyTier::SideEffecting,
            "Downloads all files of the person's latest message that came with any into one directory of the \
             workspace, each named by the first ten digits of its SHA-256. What is there already is not written \
             again. Answers with the path of each.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let Arguments { download_dir } = parse_arguments(arguments)?;
        let items = sources::latest_files(&self.0, context).await?;
        let count = items.len();
        let (mut files, mut failures) = (Vec::new(), Vec::new());
        let mut written_names = HashMap::new();
        let mut remaining_bytes = self.0.limits.download_call_bytes;
        for item in items {
            let name = item.filename.clone();
            let result = self.download(context, item, &download_dir, &mut written_names, &mut remaining_bytes).await;
            match result {
                Ok(result) => files.extend(result),
                Err(reason) => failures.push((name, reason)),
            }
        }
        if failures.is_empty() {
            return Ok(ToolOutcome::from_data(json!({ "ok": true, "downloadDir": download_dir, "files": files })));
        }
        let saved_files: Vec<String> = files.iter().map(|file| format!("{} as {}", file.filename, file.path)).collect();
        let saved_text = match saved_files.as_slice() {
            [] => String::new(),
            saved => format!("; downloaded: {}", saved.join(", ")),
        };
        let failure_text =
            failures.iter().map(|(name, reason)| format!("{name}: {}", reason.0)).collect::<Vec<_>>().join("; ");
        let failed_files: Vec<Value> =
            failures.iter().map(|(name, reason)| json!({ "filename": name, "error": reason.0 })).collect();
        let data = json!({ "ok": false, "downloadDir": download_dir, "files": files, "failed": failed_files });
        let text = format!(
            "{} of {count} files could not be downloaded: {failure_text}{saved_text}\n{data}",
            failed_files.len()
        );
        // A call that brought nothing has failed as a whole, not in part.
        let data = (!files.is_empty()).then_some(data);
        Ok(ToolOutcome { data, ..ToolOutcome::from_failure(text) })
    }
}

impl AttachmentDownload {
    /// Brings one file into the directory; nothing comes back for one that the same call has brought already.
    async fn download(
        &self,
        context: &ToolContext,
        item: DownloadItem,
        download_dir: &WorkspacePath,
        written_names: &mut HashMap<String, Sha256>,
        remaining_bytes: &mut u64,
    ) -> Result<Option<DownloadResult>, ToolError> {
        let DownloadItem { filename, source_url, source } = item;
        let StoredBytes { sha256, bytes, mime, served_as } = match source {
            ByteSource::Unavailable(reason) => return Err(error::tool_error(reason)),
            ByteSource::Stored(stored) => stored,
            ByteSource::Url(url) => self.fetch_bytes(url, &filename, *remaining_bytes).await?,
        };
        let mut sha10 = sha256.to_string();
        sha10.truncate(NAME_DIGITS);
        match written_names.get(&sha10) {
            Some(written) if *written == sha256 => return Ok(None),
            Some(_) => {
                return Err(error::tool_error(format!(
                    "another file of this message has the same name {sha10}: save it with attachment_save"
                )));
            }
            None => {}
        }
        let max_file_bytes = self.0.limits.download_file_bytes;
        if bytes > max_file_bytes.min(*remaining_bytes) {
            return Err(self.too_large_error(Some(bytes), max_file_bytes, *remaining_bytes));
        }
        let extension = extension::choose_extension(served_as.as_deref(), &filename, &source_url, &mime);
        let path = download_dir.join(&format!("{sha10}{extension}")).expect("ten digits and letters are a plain name");
        // Ten digits don't prove that it is the same file, and anybody may have written there.
        if !self.has_same_content(context, &path, &sha256, bytes).await? {
            self.write_new(context, &path, &sha256, bytes).await?;
        }
        written_names.insert(sha10.clone(), sha256);
        *remaining_bytes = remaining_bytes.saturating_sub(bytes);
        Ok(Some(DownloadResult { path, sha10, bytes, source_url, mime_type: mime, filename }))
    }

    /// Writes stored bytes to a path where nothing is, or where another call has just written the same.
    async fn write_new(
        &self,
        context: &ToolContext,
        path: &WorkspacePath,
        sha256: &Sha256,
        bytes: u64,
    ) -> Result<(), ToolError> {
        let content = self.0.blobs.open(sha256, None).await;
        let content = content.map_err(|error| error::tool_error_with_cause("its bytes could not be read", &error))?;
        match self.0.workspace.write(context, path, content, WriteMode::CreateNew, bytes).await {
            Ok(_) => Ok(()),
            Err(WorkspaceError::Exists(_)) if self.has_same_content(context, path, sha256, bytes).await? => Ok(()),
            Err(WorkspaceError::Exists(_)) => {
                Err(error::tool_error(format!("another file has this name: {path}; nothing was written over it")))
            }
            Err(error) => Err(error::write_error("it could not be written", &error)),
        }
    }

    /// Whether what is at a path is exactly these bytes.
    async fn has_same_content(
        &self,
        context: &ToolContext,
        path: &WorkspacePath,
        sha256: &Sha256,
        bytes: u64,
    ) -> Result<bool, ToolError> {
        let mut content = match self.0.workspace.read(&context.conversation, path).await {
            Ok(file) if file.bytes == bytes => file.content,
            Ok(_)
            | Err(
                WorkspaceError::NotFound(_)
                | WorkspaceError::NotADirectory(_)
                | WorkspaceError::NotAFile(_)
                | WorkspaceError::Escapes(_),
            ) => {
                return Ok(false);
            }
            Err(error) => {
                return Err(error::tool_error_with_cause("what has its name already could not be read", &error));
            }
        };
        let mut hash = sha2::Sha256::new();
        while let Some(chunk) = content.next().await {
            hash.update(chunk.map_err(|error| {
                error::tool_error_with_cause("what has its name already could not be read", &error)
            })?);
        }
        Ok(Sha256(hash.finalize().into()) == *sha256)
    }

    fn too_large_error(&self, bytes: Option<u64>, max_file_bytes: u64, remaining_bytes: u64) -> ToolError {
        let bytes =
            bytes.map_or_else(|| "it is too large".to_owned(), |bytes| format!("it has {}", format_bytes(bytes)));
        error::tool_error(format!(
            "{bytes}; at most {} are downloaded a file and {} a call, of which {} are left",
            format_bytes(max_file_bytes),
            format_bytes(self.0.limits.download_call_bytes),
            format_bytes(remaining_bytes)
        ))
    }

    /// The bytes of a file that isn't stored yet.
    async fn fetch_bytes(
        &self,
        url: String,
        filename: &Filename,
        remaining_bytes: u64,
    ) -> Result<StoredBytes, ToolError> {
        // What is refused when a person sends it doesn't come in by another way.
        let max_file_bytes = self.0.limits.download_file_bytes.min(self.0.limits.inbound_file_bytes);
        let max_bytes = max_file_bytes.min(remaining_bytes);
        let hosts =
            DISCORD_FILE_HOSTS.map(str::to_owned).into_iter().chain(self.0.download_hosts.iter().cloned()).collect();
        let request = FetchRequest { url, hosts: HostPolicy::Only(hosts), max_bytes };
        let fetched = self.0.fetcher.fetch(&request).await.map_err(|failure| match failure {
            // Links to what people send work for a day; only the platform makes new ones, and only for a message of its own.
            FetcherError::NotFound { reason } => error::tool_error(format!(
                "its link has expired, or it was deleted ({reason}); the person can send the file again"
            )),
            failure => error::tool_error_with_cause("it could not be fetched", &failure),
        })?;
        let hint = BlobHint { filename: Some(filename.clone()), mime: fetched.mime.clone(), bytes: fetched.bytes };
        let stored = self.0.blobs.put(fetched.content, &hint, max_bytes).await.map_err(|error| match error {
            BlobError::TooLarge { .. } => self.too_large_error(None, max_file_bytes, remaining_bytes),
            BlobError::Source(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                self.too_large_error(None, max_file_bytes, remaining_bytes)
            }
            error => error::tool_error_with_cause("it could not be fetched", &error),
        })?;
        Ok(StoredBytes { sha256: stored.sha256, bytes: stored.bytes, mime: stored.mime, served_as: fetched.mime })
    }
}

#[cfg(test)]
mod tests;
