//! `json_encode` and `json_decode`, also available as `json.encode` and `json.decode`.
//!
//! The interpreter's own `json` turns large integers into floats and panics at larger ones.

use serde::Serialize;
use serde_json::{Serializer, Value as Json, ser::PrettyFormatter};
use starlark::{
    environment::GlobalsBuilder,
    starlark_module,
    values::{Heap, Value, none::NoneOr},
};

use crate::{
    errors::script_error,
    values::{from_json, to_json},
};

/// The most bytes of JSON that are decoded or encoded at once; decoding takes many times that in memory.
const MAX_TEXT_BYTES: usize = 16 << 20;

const MAX_INDENT: usize = 16;

#[starlark_module]
pub(super) fn functions(builder: &mut GlobalsBuilder) {
    /// Encodes the value as JSON, on one line or indented.
    fn json_encode<'v>(
        value: Value<'v>,
        #[starlark(default = NoneOr::None)] indent: NoneOr<i32>,
        heap: Heap<'v>,
    ) -> starlark::Result<String> {
        encode_json(value, indent, heap).map_err(script_error)
    }

    /// Decodes the value from JSON.
    fn json_decode<'v>(text: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        decode_json(text, heap).map_err(script_error)
    }
}

/// The same functions under their usual Starlark names.
#[starlark_module]
pub(super) fn namespace(builder: &mut GlobalsBuilder) {
    fn encode<'v>(value: Value<'v>, heap: Heap<'v>) -> starlark::Result<String> {
        encode_json(value, NoneOr::None, heap).map_err(script_error)
    }

    fn decode<'v>(text: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        decode_json(text, heap).map_err(script_error)
    }
}

fn encode_json<'v>(value: Value<'v>, indent: NoneOr<i32>, heap: Heap<'v>) -> Result<String, String> {
    let json = to_json(value, heap, MAX_TEXT_BYTES)?;
    let NoneOr::Other(indent) = indent else { return Ok(json.to_string()) };
    match usize::try_from(indent) {
        Ok(indent) if indent <= MAX_INDENT => Ok(to_indented_json(&json, indent)),
        _ => Err(format!("indent must be from 0 to {MAX_INDENT}, not {indent}")),
    }
}

fn decode_json<'v>(text: Value<'v>, heap: Heap<'v>) -> Result<Value<'v>, String> {
    let Some(text) = text.unpack_str() else {
        return Err(format!("json_decode takes text, not {}", text.get_type()));
    };
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("json_decode takes at most {MAX_TEXT_BYTES} bytes"));
    }
    let json: Json = serde_json::from_str(text).map_err(|error| format!("json_decode: {error}"))?;
    from_json(&json, heap).map_err(|why| format!("json_decode: {why}"))
}

fn to_indented_json(json: &Json, indent: usize) -> String {
    let spaces = " ".repeat(indent);
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(spaces.as_bytes()));
    json.serialize(&mut serializer).expect("a JSON value can be written to memory");
    String::from_utf8(text).expect("JSON is written as UTF-8")
}
