//! `attachment_create`: a file of the script's own making, handed to the host in pieces.

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use satchel_starlark::protocol::{CHUNK, Chunk, FileHeader, FromWorker, LARGEST_NEW_FILE};
use starlark::{
    environment::GlobalsBuilder,
    eval::Evaluator,
    starlark_module,
    values::{Value, ValueLike, bytes::StarlarkBytes},
};

use crate::{errors::script_error, evaluate::evaluation, host_connection::HostConnection, values::size};

use super::host::call_host;

/// Takes the padding or its absence: models write both.
const READER: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a file holds, as the script gave it.
enum FileContent<'v> {
    Text(&'v str),
    Bytes(&'v [u8]),
    /// Bytes that were written in base64.
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
            "base64" => decode(text).map(Self::Decoded),
            _ => Err(format!("encoding must be \"utf-8\" or \"base64\", not {encoding:?}")),
        }
    }

    /// Says it to the host, piece by piece.
    fn send_chunks(&self, conversation: &HostConnection) {
        let bytes = match self {
            Self::Text(text) => {
                return chunks(text)
                    .for_each(|piece| conversation.send(&FromWorker::Chunk(Chunk::Text(piece.to_owned()))));
            }
            Self::Bytes(bytes) => *bytes,
            Self::Decoded(bytes) => bytes.as_slice(),
        };
        for piece in bytes.chunks(CHUNK) {
            conversation.send(&FromWorker::Chunk(Chunk::Base64(STANDARD.encode(piece))));
        }
    }
}

/// The text in pieces of at most [`CHUNK`] bytes, none of which ends within a character.
fn chunks(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(CHUNK.min(text.len())));
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The bytes that base64 stands for, however its lines are broken.
fn decode(text: &str) -> Result<Vec<u8>, String> {
    let text: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    READER.decode(text).map_err(|error| format!("content is not the base64 that encoding says it is: {error}"))
}

#[starlark_module]
pub(super) fn functions(builder: &mut GlobalsBuilder) {
    /// Makes a file and gives what the host calls it.
    fn attachment_create<'v>(
        content: Value<'v>,
        filename: &str,
        #[starlark(default = "")] description: &str,
        #[starlark(default = "application/octet-stream")] mime_type: &str,
        #[starlark(default = "deliver")] visibility: &str,
        #[starlark(default = "utf-8")] encoding: &str,
        evaluator: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        // Read in full before the host hears of it, so that it never gets half a file.
        let content = FileContent::new(content, encoding).map_err(script_error)?;
        let new_file = FileHeader {
            filename: filename.to_owned(),
            description: description.to_owned(),
            mime_type: mime_type.to_owned(),
            visibility: visibility.to_owned(),
        };
        if size(&new_file) > LARGEST_NEW_FILE {
            let why = "filename, description, mime_type and visibility have more than";
            return Err(script_error(format!("{why} {LARGEST_NEW_FILE} bytes together as JSON")));
        }
        let conversation = &evaluation().conversation;
        conversation.send(&FromWorker::Create(new_file));
        content.send_chunks(conversation);
        call_host(&FromWorker::End, evaluator)
    }
}
