//! Discord's ids: numbers that hold the time at which they were made, and so grow, written as text (Reference,
//! Snowflakes).

use serde_json::Value;
use serenity::model::Timestamp;

/// The first millisecond of 2015, from which they count.
const EPOCH_MS: u64 = 1_420_070_400_000;

/// Where an id keeps its time.
const TIME: u32 = 22;

/// The least id of what is made at a time, in milliseconds since 1970.
pub(crate) fn at_unix_ms(unix_ms: u64) -> u64 {
    span(unix_ms.saturating_sub(EPOCH_MS))
}

/// The least id of what is made in the second of a time, as Discord writes times.
pub(crate) fn from_second(time: &str) -> Option<u64> {
    let seconds = u64::try_from(Timestamp::parse(time).ok()?.unix_timestamp()).ok()?;
    Some(at_unix_ms(seconds * 1_000))
}

/// When an id was made, in milliseconds since 1970.
pub(crate) fn unix_ms(id: u64) -> u64 {
    EPOCH_MS + (id >> TIME)
}

/// By how much ids grow in so many milliseconds.
pub(crate) fn span(milliseconds: u64) -> u64 {
    milliseconds << TIME
}

/// The id in a field.
pub(crate) fn read(data: &Value, field: &str) -> Option<u64> {
    data.get(field)?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_tell_the_time() {
        // The example of Discord's own reference: 175928847299117063 was made on 2016-04-30 11:18:25.796 UTC.
        assert_eq!(at_unix_ms(1_462_015_105_796), 175_928_847_299_117_063 >> TIME << TIME);
        assert_eq!(unix_ms(175_928_847_299_117_063), 1_462_015_105_796);
        assert_eq!((at_unix_ms(0), at_unix_ms(EPOCH_MS), at_unix_ms(EPOCH_MS + 1)), (0, 0, span(1)));
        assert_eq!(from_second("2016-04-30T11:18:25.796000+00:00"), Some(at_unix_ms(1_462_015_105_000)));
        assert_eq!((from_second("yesterday"), from_second("1969-12-31T23:59:59+00:00")), (None, None));
    }

    #[test]
    fn only_text_is_an_id() {
        let data = json!({ "id": "7", "number": 7, "word": "seven", "none": null });
        let read = |field| read(&data, field);
        assert_eq!(
            [read("id"), read("number"), read("word"), read("none"), read("gone")],
            [Some(7), None, None, None, None]
        );
    }
}
