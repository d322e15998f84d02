//! Converts a script's values to JSON, bounded in depth and size, and JSON to values, keeping the kind of numbers.

use std::io::{self, Write};

use satchel_starlark::protocol::MAX_VALUE_DEPTH;
use serde::Serialize;
use serde_json::{Map, Number, Value as Json};
use starlark::{
    collections::SmallMap,
    values::{
        Heap, UnpackValue, Value,
        dict::{AllocDict, DictRef},
        float::StarlarkFloat,
        list::{AllocList, ListRef},
        structs::StructRef,
        tuple::TupleRef,
    },
};

/// Converts a value to JSON of at most `max_bytes`.
pub(crate) fn to_json<'v>(value: Value<'v>, heap: Heap<'v>, max_bytes: usize) -> Result<Json, String> {
    let mut encoder = JsonEncoder { heap, max_bytes, counted_bytes: 0 };
    let json = encoder.encode(value, 0)?;
    // The encoder's count leaves out escapes and commas: it bounds the memory, and this check bounds the line.
    if json_bytes(&json) > max_bytes { Err(too_large_error(max_bytes)) } else { Ok(json) }
}

/// The number of bytes of a value as JSON.
pub(crate) fn json_bytes(json: &impl Serialize) -> usize {
    let mut counter = ByteCounter(0);
    serde_json::to_writer(&mut counter, json).expect("counting never fails, and all that is counted can be written");
    counter.0
}

/// Converts JSON to a value of a script.
pub(crate) fn from_json<'v>(json: &Json, heap: Heap<'v>) -> Result<Value<'v>, String> {
    Ok(match json {
        Json::Null => Value::new_none(),
        Json::Bool(flag) => Value::new_bool(*flag),
        Json::Number(number) => from_number(number, heap)?,
        Json::String(text) => heap.alloc(text.as_str()),
        Json::Array(items) => {
            let items = items.iter().map(|item| from_json(item, heap)).collect::<Result<Vec<_>, _>>()?;
            heap.alloc(AllocList(items))
        }
        Json::Object(entries) => {
            let mut values = SmallMap::with_capacity(entries.len());
            for (key, entry) in entries {
                values.insert(key.as_str(), from_json(entry, heap)?);
            }
            heap.alloc(AllocDict(values))
        }
    })
}

/// A number is a float if it is written as one. The interpreter's own conversion would turn large integers into floats
/// and panic at `1e400`.
fn from_number<'v>(number: &Number, heap: Heap<'v>) -> Result<Value<'v>, String> {
    let digits = number.as_str();
    if !digits.contains(['.', 'e', 'E']) {
        if let Ok(integer) = digits.parse::<i64>() {
            return Ok(heap.alloc(integer));
        }
        if let Ok(integer) = digits.parse::<u64>() {
            return Ok(heap.alloc(integer));
        }
        if digits.len() <= MAX_INTEGER_DIGITS
            && let Ok(integer) = digits.parse::<num_bigint::BigInt>()
        {
            return Ok(heap.alloc(integer));
        }
        return Err("an integer in the JSON has too many digits".to_owned());
    }
    match digits.parse::<f64>() {
        Ok(float) if float.is_finite() => Ok(heap.alloc(float)),
        _ => Err(format!("the number {digits} is too large for a float")),
    }
}

/// The most digits of an integer: parsing takes quadratic time.
const MAX_INTEGER_DIGITS: usize = 1000;

fn too_large_error(max_bytes: usize) -> String {
    format!("a value has more than {max_bytes} bytes as JSON")
}

/// Encodes one value as JSON.
struct JsonEncoder<'v> {
    heap: Heap<'v>,
    max_bytes: usize,
    counted_bytes: usize,
}

impl<'v> JsonEncoder<'v> {
    fn encode(&mut self, value: Value<'v>, depth: usize) -> Result<Json, String> {
        if let Some(text) = value.unpack_str() {
            self.count_bytes(text.len() + 2)?;
            return Ok(Json::String(text.to_owned()));
        }
        self.count_bytes(1)?;
        if value.is_none() {
            return Ok(Json::Null);
        }
        if let Some(truth) = value.unpack_bool() {
            return Ok(Json::Bool(truth));
        }
        if value.get_type() == "int" {
            return self.encode_integer(value);
        }
        if let Some(float) = StarlarkFloat::unpack_value_opt(value) {
            return Number::from_f64(float.0)
                .map(Json::Number)
                .ok_or_else(|| format!("the float {value} is no number that can leave the script"));
        }
        if depth == MAX_VALUE_DEPTH {
            return Err(format!("a value is nested more than {MAX_VALUE_DEPTH} levels deep"));
        }
        if let Some(entries) = DictRef::from_value(value) {
            return self.encode_entries(entries.iter(), depth);
        }
        if let Some(fields) = StructRef::from_value(value) {
            return self.encode_entries(fields.iter().map(|(name, field)| (name.to_value(), field)), depth);
        }
        if let Some(items) = ListRef::from_value(value) {
            return self.encode_items(items.iter(), depth);
        }
        if let Some(items) = TupleRef::from_value(value) {
            return self.encode_items(items.iter(), depth);
        }
        match value.get_type() {
            "set" | "range" => {
                let items = value.iterate(self.heap).map_err(|error| error.without_diagnostic().to_string())?;
                self.encode_items(items, depth)
            }
            "bytes" => Err("bytes can't leave a script, but for the content of an attachment".to_owned()),
            kind => Err(format!("a value of type `{kind}` can't leave a script")),
        }
    }

    fn encode_items(&mut self, items: impl Iterator<Item = Value<'v>>, depth: usize) -> Result<Json, String> {
        items.map(|item| self.encode(item, depth + 1)).collect::<Result<_, _>>().map(Json::Array)
    }

    fn encode_entries(
        &mut self,
        entries: impl Iterator<Item = (Value<'v>, Value<'v>)>,
        depth: usize,
    ) -> Result<Json, String> {
        let mut object = Map::new();
        for (key, entry) in entries {
            let key = encode_key(key)?;
            self.count_bytes(key.len() + 3)?;
            object.insert(key, self.encode(entry, depth + 1)?);
        }
        Ok(Json::Object(object))
    }

    /// An integer that JSON readers would not keep exactly becomes text.
    fn encode_integer(&mut self, value: Value<'v>) -> Result<Json, String> {
        if let Some(integer) = unpack_integer::<i64>(value) {
            return Ok(integer.into());
        }
        if let Some(integer) = unpack_integer::<u64>(value) {
            return Ok(integer.into());
        }
        let digits = value.to_str();
        self.count_bytes(digits.len())?;
        Ok(Json::String(digits))
    }

    fn count_bytes(&mut self, bytes: usize) -> Result<(), String> {
        self.counted_bytes = self.counted_bytes.saturating_add(bytes);
        if self.counted_bytes > self.max_bytes { Err(too_large_error(self.max_bytes)) } else { Ok(()) }
    }
}

/// The integer, if it fits the type.
pub(crate) fn unpack_integer<'v, I: UnpackValue<'v>>(value: Value<'v>) -> Option<I> {
    // Too large an integer is an error here and any other value `None`; the caller needs no distinction.
    I::unpack_value(value).ok().flatten()
}

/// The key of an entry: text, or a number, boolean or `None` as Python's `json` writes it.
fn encode_key(key: Value<'_>) -> Result<String, String> {
    if let Some(text) = key.unpack_str() {
        return Ok(text.to_owned());
    }
    if key.is_none() {
        return Ok("null".to_owned());
    }
    if let Some(truth) = key.unpack_bool() {
        return Ok(truth.to_string());
    }
    match key.get_type() {
        "int" | "float" => Ok(key.to_str()),
        kind => Err(format!("a dict with a key of type `{kind}` can't leave a script; keys are text")),
    }
}

/// A writer that only counts bytes.
struct ByteCounter(usize);

impl Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
