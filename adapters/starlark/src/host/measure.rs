//! Measures values from and for a script before they are kept.

use std::io;

use serde::Serialize;
use serde_json::Value;

use crate::protocol::{MAX_CALL_RESULT_BYTES, MAX_HOST_LINE_BYTES, MAX_LINE_BYTES, MAX_VALUE_DEPTH, ToWorker};

/// The most values in one line. A number of one digit takes seventy bytes once parsed: without this limit, a line of
/// 8 MiB would become 300 MiB.
pub(crate) const MAX_VALUES: usize = 1 << 17;

/// Estimates how many values a line holds; never too low.
pub(crate) fn estimate_values(line: &[u8]) -> usize {
    let mut values = 1;
    let (mut quoted, mut escaped) = (false, false);
    for byte in line {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b'[' | b'{' if !quoted => values += 1,
            _ => {}
        }
    }
    values
}

/// Counts a value and all values in it.
pub(crate) fn count_values(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(count_values).sum(),
        Value::Object(values) => values.values().map(count_values).sum(),
        _ => 0,
    }
}

/// Whether a value is nested no deeper than [`MAX_VALUE_DEPTH`].
pub(crate) fn is_shallow(value: &Value) -> bool {
    fn fits(value: &Value, levels: usize) -> bool {
        match value {
            Value::Array(values) => levels > 0 && values.iter().all(|value| fits(value, levels - 1)),
            Value::Object(values) => levels > 0 && values.values().all(|value| fits(value, levels - 1)),
            _ => true,
        }
    }
    fits(value, MAX_VALUE_DEPTH)
}

/// Serializes a message as a line with its end; `None` if it is longer than allowed.
pub(crate) fn to_line(message: &impl Serialize) -> Option<Vec<u8>> {
    bounded_line(message, MAX_LINE_BYTES)
}

/// Serializes a value for a script as a line; `None` if the value is larger than allowed.
pub(crate) fn value_line(value: Value) -> Option<Vec<u8>> {
    let max_bytes = match &value {
        // For a text its own bytes count: how many characters JSON will escape is not known in advance.
        Value::String(text) if text.len() > MAX_CALL_RESULT_BYTES => return None,
        Value::String(_) => MAX_HOST_LINE_BYTES,
        _ => MAX_LINE_BYTES,
    };
    bounded_line(&ToWorker::Value(value), max_bytes)
}

fn bounded_line(message: &impl Serialize, max_bytes: usize) -> Option<Vec<u8>> {
    let mut line = BoundedBuffer { bytes: Vec::new(), max_bytes };
    serde_json::to_writer(&mut line, message).ok()?;
    line.bytes.push(b'\n');
    Some(line.bytes)
}

/// A buffer that fails at the longest line, so that a huge value is not serialized completely before it is measured.
struct BoundedBuffer {
    bytes: Vec<u8>,
    max_bytes: usize,
}

impl io::Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.max_bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!(0), |inner, level| if level % 2 == 0 { json!([inner]) } else { json!({ "k": inner }) })
    }

    #[test]
    fn value_nesting_is_limited_exactly() {
        assert!(is_shallow(&nested(0)) && is_shallow(&nested(MAX_VALUE_DEPTH)));
        assert!(!is_shallow(&nested(MAX_VALUE_DEPTH + 1)));
        assert!(!is_shallow(&json!([1, { "a": nested(MAX_VALUE_DEPTH - 1) }])));
    }

    #[test]
    fn encoded_line_length_is_limited_exactly() {
        let fits = to_line(&"x".repeat(MAX_LINE_BYTES - 2)).unwrap();
        assert_eq!(fits.len(), MAX_LINE_BYTES + 1, "with its end");
        assert_eq!(to_line(&"x".repeat(MAX_LINE_BYTES - 1)), None);
        assert_eq!(to_line(&vec![0; MAX_LINE_BYTES / 2]), None);
        assert_eq!(to_line(&json!({"a": "\n"})).unwrap(), b"{\"a\":\"\\n\"}\n", "no end of line stands inside");
    }

    #[test]
    fn text_of_8_mib_is_given_whole() {
        let line =
            value_line(json!("\"\n".repeat(MAX_CALL_RESULT_BYTES / 2))).expect("it is no larger than any may be");
        assert!(line.len() > MAX_LINE_BYTES && line.len() <= MAX_HOST_LINE_BYTES + 1, "{}", line.len());
        assert_eq!(value_line(json!("x".repeat(MAX_CALL_RESULT_BYTES + 1))), None);
        assert_eq!(value_line(json!(["x".repeat(MAX_CALL_RESULT_BYTES)])), None, "with what is around it");
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<i64>().prop_map(|n| json!(n)),
            "[,{\\[\"\\\\a]{0,6}".prop_map(|s| json!(s))
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
                prop::collection::vec(("[,{\"\\\\a-d]{0,3}", inner), 0..6)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_value_is_overlooked(value in any_value()) {
            let line = serde_json::to_vec(&value).unwrap();
            let (counted, real) = (estimate_values(&line), count_values(&value));
            prop_assert!(real <= counted && counted <= 2 * real, "{} {}", real, counted);
        }
    }
}
