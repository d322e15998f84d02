//! `attachment_create`: creates a file and sends it to the host in chunks.

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use satchel_starlark::protocol::{CHUNK_BYTES, Chunk, FileHeader, FromWorker, MAX_FILE_HEADER_BYTES};
use starlark::{
    environment::GlobalsBuilder,
    eval::Evaluator,
    starlark_module,
    values::{Value, ValueLike, bytes::StarlarkBytes},
};

use crate::{errors::script_error, evaluate::current_evaluation, host_connection::HostConnection, values::json_bytes};

use super::host::call_host;

/// Accepts base64 with and without padding: models write both.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The content of a file, as the script gave it.
enum FileContent<'v> {
    Text(&'v str),
    Bytes(&'v [u8]),
    /// Bytes that were given as base64.
    Decoded(Vec<u8>),
}

impl<'v> FileContent<'v> {
    fn new(content: Value<'v>, encoding: &str) -> Result<Self, String> {
        let encoding = encoding.to_ascii_lowercase();
        if let Some(bytes) = content.downcast_ref::<StarlarkBytes>() {
            return match encoding.as_str() {
                "base64" => Err("content that is bytes already has no encoding".to_owned()),
                _ => Ok(Self::Bytes(bytes.as_bytes())),
            };
        }
        let Some(text) = content.unpack_str() else {
            let kind = content.get_type();
            return Err(match kind {
                "dict" | "list" | "struct" | "tuple" => {
                    format!("content must be text or bytes, not {kind}: json_encode(…) makes text of it")
                }
                _ => format!("content must be text or bytes, not {kind}: str(…) makes text of it"),
            });
        };
        match encoding.as_str() {
            "utf-8" | "utf8" => Ok(Self::Text(text)),
            "base64" => decode_base64(text).map(Self::Decoded),
            _ => Err(format!("encoding must be \"utf-8\" or \"base64\", not {encoding:?}")),
        }
    }

    /// Sends it to the host, chunk by chunk.
    fn send_chunks(&self, host: &HostConnection) {
        let bytes = match self {
            Self::Text(text) => {
                return text_chunks(text)
                    .for_each(|chunk| host.send(&FromWorker::Chunk(Chunk::Text(chunk.to_owned()))));
            }
            Self::Bytes(bytes) => *bytes,
            Self::Decoded(bytes) => bytes.as_slice(),
        };
        for chunk in bytes.chunks(CHUNK_BYTES) {
            host.send(&FromWorker::Chunk(Chunk::Base64(STANDARD.encode(chunk))));
        }
    }
}

/// Splits the text into chunks of at most [`CHUNK_BYTES`], none of which ends within a character.
fn text_chunks(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (chunk, rest) = text.split_at(text.floor_char_boundary(CHUNK_BYTES.min(text.len())));
        text = rest;
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// Decodes base64, ignoring white space.
fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    let text: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64.decode(text).map_err(|error| format!("content is not the base64 that encoding says it is: {error}"))
}

#[starlark_module]
pub(super) fn functions(builder: &mut GlobalsBuilder) {
    /// Creates a file and returns the host's response.
    fn attachment_create<'v>(
        content: Value<'v>,
        filename: &str,
        #[starlark(default = "")] description: &str,
        #[starlark(default = "application/octet-stream")] mime_type: &str,
        #[starlark(default = "deliver")] visibility: &str,
        #[starlark(default = "utf-8")] encoding: &str,
        evaluator: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        // Read completely before anything is sent, so that the host never gets half a file.
        let content = FileContent::new(content, encoding).map_err(script_error)?;
        let header = FileHeader {
            filename: filename.to_owned(),
            description: description.to_owned(),
            mime_type: mime_type.to_owned(),
            visibility: visibility.to_owned(),
        };
        if json_bytes(&header) > MAX_FILE_HEADER_BYTES {
            let message = "filename, description, mime_type and visibility have more than";
            return Err(script_error(format!("{message} {MAX_FILE_HEADER_BYTES} bytes together as JSON")));
        }
        let conversation = &current_evaluation().host;
        conversation.send(&FromWorker::Create(header));
        content.send_chunks(conversation);
        call_host(&FromWorker::End, evaluator)
    }
}
