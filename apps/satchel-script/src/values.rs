//! Values of a script and JSON: what leaves is bounded in depth and size, what enters keeps the kind of its numbers.

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

/// The JSON of a value that has at most so many bytes, or why there is none.
pub(crate) fn to_json<'v>(value: Value<'v>, heap: Heap<'v>, most: usize) -> Result<Json, String> {
    let mut leaving = JsonEncoder { heap, most, counted: 0 };
    let json = leaving.json(value, 0)?;
    // What was counted on the way is too little: no escapes, no commas. It bounds the memory, this bounds the line.
    if size(&json) > most { Err(too_large(most)) } else { Ok(json) }
}

/// The number of bytes of something as JSON.
pub(crate) fn size(json: &impl Serialize) -> usize {
    let mut counter = ByteCounter(0);
    serde_json::to_writer(&mut counter, json).expect("counting never fails, and all that is counted can be written");
    counter.0
}

/// The value that stands for some JSON in a script.
pub(crate) fn from_json<'v>(json: &Json, heap: Heap<'v>) -> Result<Value<'v>, String> {
    Ok(match json {
        Json::Null => Value::new_none(),
        Json::Bool(truth) => Value::new_bool(*truth),
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

/// A number is a float when it is written as one. The interpreter's own conversion would make floats of large integers
/// and panic at `1e400`.
fn from_number<'v>(number: &Number, heap: Heap<'v>) -> Result<Value<'v>, String> {
    let written = number.as_str();
    if !written.contains(['.', 'e', 'E']) {
        if let Ok(integer) = written.parse::<i64>() {
            return Ok(heap.alloc(integer));
        }
        if let Ok(integer) = written.parse::<u64>() {
            return Ok(heap.alloc(integer));
        }
        if written.len() <= LONGEST_INTEGER
            && let Ok(integer) = written.parse::<num_bigint::BigInt>()
        {
            return Ok(heap.alloc(integer));
        }
        return Err("an integer in the JSON has too many digits".to_owned());
    }
    match written.parse::<f64>() {
        Ok(float) if float.is_finite() => Ok(heap.alloc(float)),
        _ => Err(format!("the number {written} is too large for a float")),
    }
}

/// How many digits an integer may have that is read: reading takes time that grows with their square.
const LONGEST_INTEGER: usize = 1000;

fn too_large(most: usize) -> String {
    format!("a value has more than {most} bytes as JSON")
}

/// A value on its way out.
struct JsonEncoder<'v> {
    heap: Heap<'v>,
    most: usize,
    counted: usize,
}

impl<'v> JsonEncoder<'v> {
    fn json(&mut self, value: Value<'v>, depth: usize) -> Result<Json, String> {
        if let Some(text) = value.unpack_str() {
            self.count(text.len() + 2)?;
            return Ok(Json::String(text.to_owned()));
        }
        self.count(1)?;
        if value.is_none() {
            return Ok(Json::Null);
        }
        if let Some(truth) = value.unpack_bool() {
            return Ok(Json::Bool(truth));
        }
        if value.get_type() == "int" {
            return self.integer(value);
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
            return self.entries(entries.iter(), depth);
        }
        if let Some(fields) = StructRef::from_value(value) {
            return self.entries(fields.iter().map(|(name, field)| (name.to_value(), field)), depth);
        }
        if let Some(items) = ListRef::from_value(value) {
            return self.items(items.iter(), depth);
        }
        if let Some(items) = TupleRef::from_value(value) {
            return self.items(items.iter(), depth);
        }
        match value.get_type() {
            "set" | "range" => {
                let items = value.iterate(self.heap).map_err(|error| error.without_diagnostic().to_string())?;
                self.items(items, depth)
            }
            "bytes" => Err("bytes can't leave a script, but for the content of an attachment".to_owned()),
            kind => Err(format!("a value of type `{kind}` can't leave a script")),
        }
    }

    fn items(&mut self, items: impl Iterator<Item = Value<'v>>, depth: usize) -> Result<Json, String> {
        items.map(|item| self.json(item, depth + 1)).collect::<Result<_, _>>().map(Json::Array)
    }

    fn entries(&mut self, entries: impl Iterator<Item = (Value<'v>, Value<'v>)>, depth: usize) -> Result<Json, String> {
        let mut object = Map::new();
        for (key, entry) in entries {
            let key = key_of(key)?;
            self.count(key.len() + 3)?;
            object.insert(key, self.json(entry, depth + 1)?);
        }
        Ok(Json::Object(object))
    }

    /// An integer that no reader of JSON would keep exactly leaves as text.
    fn integer(&mut self, value: Value<'v>) -> Result<Json, String> {
        if let Some(integer) = integer::<i64>(value) {
            return Ok(integer.into());
        }
        if let Some(integer) = integer::<u64>(value) {
            return Ok(integer.into());
        }
        let digits = value.to_str();
        self.count(digits.len())?;
        Ok(Json::String(digits))
    }

    fn count(&mut self, bytes: usize) -> Result<(), String> {
        self.counted = self.counted.saturating_add(bytes);
        if self.counted > self.most { Err(too_large(self.most)) } else { Ok(()) }
    }
}

/// The integer, where its type has room for it.
pub(crate) fn integer<'v, I: UnpackValue<'v>>(value: Value<'v>) -> Option<I> {
    // Too large an integer is an error here, and anything else `None`; to us they are the same.
    I::unpack_value(value).ok().flatten()
}

/// The key of an entry: text, or what Python's `json` makes of a number, a truth value or `None`.
fn key_of(key: Value<'_>) -> Result<String, String> {
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

/// Counts bytes instead of keeping them.
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
