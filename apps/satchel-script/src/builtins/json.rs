//! `json_encode` and `json_decode`, which are also there as `json.encode` and `json.decode`.
//!
//! The interpreter's own `json` makes floats of large integers and panics at others.

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

/// The most bytes of JSON that is read or written at once; reading it takes many times that in memory.
const MAX_TEXT_BYTES: usize = 16 << 20;

const WIDEST_INDENT: usize = 16;

#[starlark_module]
pub(super) fn functions(builder: &mut GlobalsBuilder) {
    /// The value as JSON, on one line or indented.
    fn json_encode<'v>(
        value: Value<'v>,
        #[starlark(default = NoneOr::None)] indent: NoneOr<i32>,
        heap: Heap<'v>,
    ) -> starlark::Result<String> {
        encode_json(value, indent, heap).map_err(script_error)
    }

    /// The value that is written in the text as JSON.
    fn json_decode<'v>(text: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        read(text, heap).map_err(script_error)
    }
}

/// The names that Starlark has elsewhere.
#[starlark_module]
pub(super) fn namespace(builder: &mut GlobalsBuilder) {
    fn encode<'v>(value: Value<'v>, heap: Heap<'v>) -> starlark::Result<String> {
        encode_json(value, NoneOr::None, heap).map_err(script_error)
    }

    fn decode<'v>(text: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        read(text, heap).map_err(script_error)
    }
}

fn encode_json<'v>(value: Value<'v>, indent: NoneOr<i32>, heap: Heap<'v>) -> Result<String, String> {
    let json = to_json(value, heap, MAX_TEXT_BYTES)?;
    let NoneOr::Other(indent) = indent else { return Ok(json.to_string()) };
    match usize::try_from(indent) {
        Ok(indent) if indent <= WIDEST_INDENT => Ok(indented(&json, indent)),
        _ => Err(format!("indent must be from 0 to {WIDEST_INDENT}, not {indent}")),
    }
}

fn read<'v>(text: Value<'v>, heap: Heap<'v>) -> Result<Value<'v>, String> {
    let Some(text) = text.unpack_str() else {
        return Err(format!("json_decode takes text, not {}", text.get_type()));
    };
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("json_decode takes at most {MAX_TEXT_BYTES} bytes"));
    }
    let json: Json = serde_json::from_str(text).map_err(|error| format!("json_decode: {error}"))?;
    from_json(&json, heap).map_err(|why| format!("json_decode: {why}"))
}

fn indented(json: &Json, indent: usize) -> String {
    let spaces = " ".repeat(indent);
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(spaces.as_bytes()));
    json.serialize(&mut serializer).expect("a JSON value can be written to memory");
    String::from_utf8(text).expect("JSON is written as UTF-8")
}
