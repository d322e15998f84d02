//! The output of a task: what later tasks of a run can name of it, and how they read its files.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use satchel_domain::{Attachment, AttachmentId, ConversationId, Sha256};
use satchel_ports::{
    Archive, BlobHint, Blobs, ByteStream, DeclaredFileError, DeclaredFiles, FileEntry, OpenedFile, ReadableFile,
    ledger::AttachmentKey,
};
use serde_json::{Value, json};

/// Where the files of a conversation seem to be.
const DIRECTORY: &str = "/attachments";

/// What `tasks.<id>.output` stands for once a task is done.
#[must_use]
pub fn output_value(text: &str, files: &[Attachment]) -> Value {
    let listed: Vec<Value> = files
        .iter()
        .map(|file| {
            json!({
                "path": virtual_path(file),
                "name": file.filename.as_str(),
                "mime": file.mime,
                "bytes": file.bytes,
                "number": file.number,
            })
        })
        .collect();
    let paths: Vec<String> = files.iter().map(virtual_path).collect();
    let mut output = json!({ "text": text, "paths": paths, "files": listed });
    if let Some(first) = paths.first() {
        output["path"] = json!(first);
    }
    if let Some(value) = parse_json(text) {
        output["json"] = value;
    }
    output
}

/// The path under which a file of the conversation is read: `/attachments/<id>/<name>`. The id alone finds it, so the name
/// loses the dots with which it would be a hidden one, which no value of a path may name.
fn virtual_path(file: &Attachment) -> String {
    format!("{DIRECTORY}/{}/{}", file.id, file.filename.as_str().trim_start_matches('.'))
}

/// The JSON that a model answered, with or without a fence around it.
fn parse_json(text: &str) -> Option<Value> {
    let text = text.trim();
    let fenced = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    let text = fenced.and_then(|text| text.split_once('\n')).map_or(text, |(_label, inside)| inside);
    serde_json::from_str(text).ok().filter(|value: &Value| value.is_object() || value.is_array())
}

/// The files that a run can read: those of its conversation by the paths in outputs, and all others as declared.
pub struct RunFiles {
    pub declared: Arc<dyn DeclaredFiles>,
    pub archive: Arc<dyn Archive>,
    pub blobs: Arc<dyn Blobs>,
    pub conversation: ConversationId,
}

impl RunFiles {
    /// The id in a path of an output; `None` for every other path.
    fn attachment_id(path: &Path) -> Option<AttachmentId> {
        let beneath = path.strip_prefix(DIRECTORY).ok()?;
        beneath.components().next()?.as_os_str().to_str()?.parse().ok()
    }

    async fn open_attachment(&self, id: AttachmentId, path: &Path) -> Result<OpenedFile, DeclaredFileError> {
        let record = self.archive.attachment(&self.conversation, AttachmentKey::Id(id)).await.map_err(|error| {
            let source = std::io::Error::other(error);
            DeclaredFileError::Io { operation: "look up", path: path.to_owned(), source }
        })?;
        let Some(file) = record.filter(|file| !file.is_forgotten()) else {
            return Err(DeclaredFileError::Missing(path.to_owned()));
        };
        let Attachment { mime, bytes, sha256, media, .. } = file;
        let content = Arc::new(StoredFile { blobs: Arc::clone(&self.blobs), sha256 });
        Ok(OpenedFile { mime, bytes, sha256, media, content })
    }
}

#[async_trait]
impl DeclaredFiles for RunFiles {
    async fn list(
        &self,
        root: &Path,
        directory: &str,
        is_recursive: bool,
    ) -> Result<Vec<FileEntry>, DeclaredFileError> {
        self.declared.list(root, directory, is_recursive).await
    }

    async fn canonical_path(&self, root: &Path, path: &Path) -> Option<PathBuf> {
        match Self::attachment_id(path) {
            Some(_) => Some(path.to_owned()),
            None => self.declared.canonical_path(root, path).await,
        }
    }

    async fn open(&self, root: &Path, path: &Path) -> Result<OpenedFile, DeclaredFileError> {
        match Self::attachment_id(path) {
            Some(id) => self.open_attachment(id, path).await,
            None => self.declared.open(root, path).await,
        }
    }

    async fn store(&self, content: ByteStream, hint: &BlobHint) -> Result<OpenedFile, DeclaredFileError> {
        self.declared.store(content, hint).await
    }
}

/// A file in the blob store.
struct StoredFile {
    blobs: Arc<dyn Blobs>,
    sha256: Sha256,
}

impl fmt::Debug for StoredFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredFile").field("sha256", &self.sha256).finish_non_exhaustive()
    }
}

impl ReadableFile for StoredFile {
    fn path(&self) -> Option<&Path> {
        None
    }

    fn read(&self) -> ByteStream {
        let (blobs, sha256) = (Arc::clone(&self.blobs), self.sha256);
        let opened = async move { blobs.open(&sha256, None).await.map_err(std::io::Error::other) };
        stream::once(opened.boxed()).try_flatten().boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use bytes::Bytes;
    use satchel_domain::{AttachmentSource, Filename, MediaInfo, NewAttachment, StoredBlob, Timestamp};
    use satchel_ports::{MockArchive, MockBlobs, MockDeclaredFiles};
    use uuid::Uuid;

    use super::*;

    fn file(id: u128, name: &str) -> Attachment {
        let stored = StoredBlob {
            sha256: Sha256::digest(name),
            bytes: 3,
            mime: "image/png".to_owned(),
            media: MediaInfo::default(),
        };
        let (id, name) = (AttachmentId(Uuid::from_u128(id)), Filename::from_untrusted(name));
        let new_file = NewAttachment::new(id, AttachmentSource::Tool, name, stored, Timestamp(0));
        new_file.numbered("console:main".parse().unwrap(), NonZeroU64::MIN)
    }

    #[test]
    fn output_names_text_files_and_json() {
        let first = "/attachments/00000000-0000-0000-0000-000000000007/cat.png";
        let output = output_value("A cat.", &[file(7, "cat.png"), file(8, "dog.png")]);
        assert_eq!(output["text"], "A cat.");
        assert_eq!(output["path"], first);
        assert_eq!(output["paths"][1], "/attachments/00000000-0000-0000-0000-000000000008/dog.png");
        assert_eq!(output["files"][0]["name"], "cat.png");
        assert_eq!(output.get("json"), None);
        assert_eq!(output_value("", &[]).get("path"), None, "a path that is missing is an error, never empty");
        let hidden = output_value("", &[file(7, ".cat.png")]);
        assert_eq!((&hidden["path"], &hidden["files"][0]["name"]), (&json!(first), &json!(".cat.png")));
    }

    #[test]
    fn json_of_an_answer_can_be_named() {
        for text in [r#"{"kind":"cat"}"#, " {\"kind\": \"cat\"}\n", "```json\n{\"kind\":\"cat\"}\n```"] {
            assert_eq!(output_value(text, &[])["json"]["kind"], "cat", "{text}");
        }
        for text in ["cat", "1", "```json\n{\n```", "{\"kind\":"] {
            assert_eq!(output_value(text, &[]).get("json"), None, "{text}");
        }
    }

    fn run_files(declared: MockDeclaredFiles, archive: MockArchive) -> RunFiles {
        let mut blobs = MockBlobs::new();
        blobs.expect_open().returning(|sha256, _| {
            assert_eq!(*sha256, Sha256::digest("cat.png"));
            Ok(stream::iter([Ok(Bytes::from_static(b"cat"))]).boxed())
        });
        RunFiles {
            declared: Arc::new(declared),
            archive: Arc::new(archive),
            blobs: Arc::new(blobs),
            conversation: "console:main".parse().unwrap(),
        }
    }

    #[tokio::test]
    async fn output_path_leads_to_file_of_the_conversation() {
        let mut ledger = MockArchive::new();
        ledger.expect_attachment().returning(|conversation, key| {
            assert_eq!(conversation.to_string(), "console:main", "no other conversation's files can be named");
            let mut forgotten = file(8, "dog.png");
            forgotten.erase();
            Ok(match key {
                AttachmentKey::Id(AttachmentId(id)) if id.as_u128() == 7 => Some(file(7, "cat.png")),
                AttachmentKey::Id(AttachmentId(id)) if id.as_u128() == 8 => Some(forgotten),
                _ => None,
            })
        });
        let files = run_files(MockDeclaredFiles::new(), ledger);
        let path = |id: u128| PathBuf::from(virtual_path(&file(id, "cat.png")));
        let opened = files.open(Path::new("/etc/satchel"), &path(7)).await.unwrap();
        assert_eq!((opened.mime.as_str(), opened.bytes, opened.content.path()), ("image/png", 3, None));
        let content: Vec<Bytes> = opened.content.read().try_collect().await.unwrap();
        assert_eq!(content.concat(), b"cat");
        for id in [8, 9] {
            let error = files.open(Path::new("/etc/satchel"), &path(id)).await.unwrap_err();
            assert!(matches!(error, DeclaredFileError::Missing(_)), "{error}");
        }
    }

    #[tokio::test]
    async fn other_paths_are_those_of_the_machine() {
        let mut declared = MockDeclaredFiles::new();
        declared.expect_open().times(3).returning(|_, path| Err(DeclaredFileError::Missing(path.to_owned())));
        let files = run_files(declared, MockArchive::new());
        let id = Uuid::from_u128(7);
        for path in ["cat.png".to_owned(), "/attachments/cat.png".to_owned(), format!("attachments/{id}/cat.png")] {
            assert!(files.open(Path::new("/etc/satchel"), Path::new(&path)).await.is_err());
        }
    }
}
