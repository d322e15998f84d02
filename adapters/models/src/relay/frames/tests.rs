//! Tests of how bytes become frames, and of the limits.

use rstest::rstest;

use super::*;

/// Pushes the chunks, and returns what each of them completes and what is left at the end.
fn frames(provider: ModelProvider, chunks: &[&str]) -> (Vec<String>, String) {
    let mut buffer = FrameBuffer::new(provider);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let complete = chunks.iter().map(|chunk| text(buffer.push(chunk.as_bytes()).unwrap())).collect();
    (complete, text(buffer.finish().unwrap()))
}

#[test]
fn frames_are_passed_on_only_when_complete() {
    let chunks = ["data: a\n", "data: b", "\n", "\ndata: c\n\ndata: d\n\nda", "ta: e\n\n"];
    let (complete, rest) = frames(ModelProvider::Anthropic, &chunks);
    assert_eq!(complete, ["", "", "", "data: a\ndata: b\n\ndata: c\n\ndata: d\n\n", "data: e\n\n"]);
    assert_eq!(rest, "");

    let (complete, rest) = frames(ModelProvider::Ollama, &["{\"a\":1}\n{\"b\"", ":2}\n", "{\"c\":3}"]);
    assert_eq!(complete, ["{\"a\":1}\n", "{\"b\":2}\n", ""]);
    assert_eq!(rest, "{\"c\":3}", "some servers leave out the last line break");
}

/// The vendor's client would take the first half of a line break for a whole one.
#[test]
fn line_breaks_of_any_kind_become_line_feeds() {
    for chunks in [
        &["event: x\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n"][..],
        &["event: x\r", "\ndata: 1\r", "\n\r", "\ndata: 2\r\n\r", "\n"],
        &["event: x\rdata: 1\r\rdata: 2\r\r"],
        &["event: x\ndata: 1\r\n\ndata: 2\n\r\n"],
    ] {
        let (complete, rest) = frames(ModelProvider::Gemini, chunks);
        assert_eq!(complete.concat(), "event: x\ndata: 1\n\ndata: 2\n\n", "{chunks:?}");
        assert_eq!(rest, "", "{chunks:?}");
    }
    let (complete, _) = frames(ModelProvider::Ollama, &["{\r\"a\":1}\r\n"]);
    assert_eq!(complete, ["{\r\"a\":1}\r\n"], "in JSON it is space");
}

#[test]
fn cutting_anywhere_yields_the_same_frames() {
    let answer = "event: a\r\ndata: ü1\r\n\r\n: ping\n\ndata: {\"x\":\r\r\ndata: 2}\n\nrest";
    let bytes = answer.as_bytes();
    let whole = frames(ModelProvider::OpenAi, &[answer]).0.concat();
    for length in 1..bytes.len() {
        let mut buffer = FrameBuffer::new(ModelProvider::OpenAi);
        let pieces: Vec<Vec<u8>> = bytes.chunks(length).map(|chunk| buffer.push(chunk).unwrap()).collect();
        assert_eq!(String::from_utf8(pieces.concat()).unwrap(), whole, "{length}");
        assert_eq!(buffer.finish().unwrap(), b"rest", "{length}");
    }
}

#[test]
fn unfinished_frame_and_answer_are_limited() {
    let chunk = vec![b'x'; 1 << 20];
    let mut endless = FrameBuffer::new(ModelProvider::Anthropic);
    let passed = (0..).take_while(|_| endless.push(&chunk).is_ok_and(|complete| complete.is_empty())).count();
    assert_eq!(passed, MAX_FRAME_BYTES >> 20);
    assert_eq!(endless.partial.len(), MAX_FRAME_BYTES, "nothing is kept beyond the limit");

    let mut frame = vec![b'x'; (1 << 20) - 2];
    frame.extend_from_slice(b"\n\n");
    let mut long = FrameBuffer::new(ModelProvider::Anthropic);
    let passed = (0..).take_while(|_| long.push(&frame).is_ok_and(|complete| complete.len() == frame.len())).count();
    assert_eq!(passed, MAX_RESPONSE_BYTES >> 20);
    assert_eq!(long.push(b"x"), Err(FrameError::TooLong));
}

fn call_frame(calls: &str) -> String {
    format!("data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{calls}]}}}}]}}\n\n")
}

fn call(index: u64) -> String {
    format!("{{\"index\":{index},\"function\":{{\"name\":\"f\",\"arguments\":\"{{}}\"}}}}")
}

/// The vendor's client makes room for as many calls as the index says.
#[rstest]
#[case::one_jump(vec![4_294_967_295])]
#[case::small_jump(vec![0, 1, 19])]
#[case::second_frame(vec![0, 18])]
#[case::first_frame(vec![17])]
#[case::steps((0..=64).map(|step| step * 16).collect())]
fn call_index_far_beyond_the_others_is_refused(#[case] indexes: Vec<u64>) {
    let mut buffer = FrameBuffer::new(ModelProvider::OpenAi);
    let (last, before) = indexes.split_last().unwrap();
    for index in before {
        assert!(buffer.push(call_frame(&call(*index)).as_bytes()).is_ok());
    }
    assert_eq!(buffer.push(call_frame(&call(*last)).as_bytes()), Err(FrameError::TooCostly));
}

#[rstest]
#[case::escaped_key(call_frame(&call(70)).replace("tool_calls", "tool\\u005fcalls"))]
#[case::several_lines(call_frame(&call(70)).replace("{\"tool", "\ndata:{\"tool"))]
#[case::indented(format!("  {}", call_frame(&call(70))))]
#[case::beside_calls_without_function(call_frame("{\"index\":0}") + &call_frame("{\"index\":1}") + &call_frame(&call(18)))]
fn call_index_is_found_however_it_is_written(#[case] frames: String) {
    let mut buffer = FrameBuffer::new(ModelProvider::OpenAi);
    assert_eq!(buffer.push(frames.as_bytes()), Err(FrameError::TooCostly));
}

/// The vendor's client needs only that the key exists.
#[rstest]
fn function_of_any_kind_makes_a_call(#[values("null", "1", "\"x\"", "[]", "{}", "true")] function: &str) {
    let mut buffer = FrameBuffer::new(ModelProvider::OpenAi);
    let frame = call_frame(&format!("{{\"index\":4294967295,\"function\":{function}}}"));
    assert_eq!(buffer.push(frame.as_bytes()), Err(FrameError::TooCostly));
}

/// The client copies all that it has of a call for each entry.
#[rstest]
#[case::arguments("{\"index\":0,\"function\":{\"arguments\":\"LONG\"}}")]
#[case::id("{\"index\":0,\"id\":\"LONG\",\"function\":{\"name\":\"f\"}}")]
#[case::name("{\"index\":0,\"function\":{\"name\":\"LONG\"}}")]
fn entries_that_multiply_a_long_call_are_refused(#[case] first: &str) {
    let first = first.replace("LONG", &"x".repeat((4 << 20) - 1));
    let entries = vec!["{\"index\":0,\"function\":{}}"; 15];
    let mut buffer = FrameBuffer::new(ModelProvider::OpenAi);
    assert!(buffer.push(call_frame(&format!("{first},{}", entries.join(","))).as_bytes()).is_ok(), "16 copies");
    let next = vec!["{\"index\":0,\"function\":null}"; 17];
    assert_eq!(buffer.push(call_frame(&next.join(",")).as_bytes()), Err(FrameError::TooCostly), "17 copies");

    for (index, expected) in [(1, true), (2, false)] {
        let frame = call_frame(&first.replace(":0,", &format!(":{index},")));
        let mut buffer = FrameBuffer::new(ModelProvider::OpenAi);
        assert_eq!(buffer.push(frame.as_bytes()).is_ok(), expected, "the gap is filled with copies: {index}");
    }
}

/// What a call has as text is parsed at the end of the answer.
#[rstest]
fn arguments_of_countless_values_are_refused(#[values(",0", "\\u002c0")] value: &str) {
    let frame = call_frame(&call(0).replace("{}", &value.repeat(100_000)));
    let mut buffer = FrameBuffer::new(ModelProvider::OpenAi);
    let passed = (0..).take_while(|_| buffer.push(frame.as_bytes()).is_ok()).count();
    assert_eq!(passed, MAX_TEXT_SEPARATORS / 100_000);
}

#[test]
fn repeated_ids_and_many_chunks_of_arguments_are_passed_on() {
    let mut buffer = FrameBuffer::new(ModelProvider::OpenAi);
    let chunk = "{\"index\":0,\"id\":\"call_1\",\"function\":{\"name\":\"file_write\",\"arguments\":\"four\"}}";
    let frame = call_frame(chunk);
    for number in 0..20_000 {
        assert!(buffer.push(frame.as_bytes()).is_ok(), "{number}");
    }
    let calls = buffer.calls.unwrap().calls;
    assert_eq!((calls.len(), calls[0].argument_bytes, calls[0].label_bytes), (1, 80_000, 16));
}

/// Each value takes the memory of dozens of bytes, wherever it is parsed.
#[rstest]
#[case::numbers("[0", ",0", "]")]
#[case::lists("[[]", ",[]", "]")]
#[case::fields("{\"\":0", ",\"\":0", "}")]
#[case::after_escapes("[\"\\\\\\\"\"", ",0", "]")]
fn frame_of_countless_values_is_refused(#[case] start: &str, #[case] repeated: &str, #[case] end: &str) {
    for (provider, head, tail) in [
        (ModelProvider::Ollama, "", "\n"),
        (ModelProvider::Gemini, "data: ", "\n\n"),
        // A quotation mark in a comment begins no text.
        (ModelProvider::Anthropic, ": \"\ndata: ", "\n\n"),
        (ModelProvider::OpenAi, "event: \"\rdata: ", "\r\r"),
    ] {
        let frame = |count: usize| format!("{head}{start}{}{end}{tail}", repeated.repeat(count));
        let push = |frame: String| FrameBuffer::new(provider).push(frame.as_bytes()).map(drop);
        assert_eq!(push(frame(MAX_FRAME_VALUES)), Err(FrameError::TooCostly), "{provider:?}");
        assert_eq!(push(frame(MAX_FRAME_VALUES / 3)), Ok(()), "{provider:?}");
    }
}

#[test]
fn long_text_with_countless_commas_is_passed_on() {
    let text = "a,b:[{\\\",\\\\".repeat(390_000);
    let frame = format!("data: {{\"delta\":\"{text}\",\"index\":0}}\n\n");
    assert!(frame.len() < MAX_FRAME_BYTES);
    let mut buffer = FrameBuffer::new(ModelProvider::Anthropic);
    assert_eq!(buffer.push(frame.as_bytes()).map(|complete| complete.len()), Ok(frame.len()));
}

#[test]
fn call_index_is_checked_at_the_end_of_an_answer_too() {
    let mut buffer = FrameBuffer::new(ModelProvider::OpenAi);
    let frame = call_frame(&call(70));
    assert_eq!(buffer.push(frame.trim_end().as_bytes()), Ok(Vec::new()));
    assert_eq!(buffer.finish(), Err(FrameError::TooCostly));
}

#[test]
fn calls_counted_from_a_low_number_are_passed_on() {
    for first in [0, 1, 2, 16] {
        let mut buffer = FrameBuffer::new(ModelProvider::OpenAi);
        for index in first..first + 500 {
            let frame = call_frame(&format!("{},{}", call(index), call(index)));
            assert!(buffer.push(frame.as_bytes()).is_ok(), "{index}");
        }
    }
    let mut other = FrameBuffer::new(ModelProvider::Anthropic);
    assert!(other.push(call_frame(&call(900)).as_bytes()).is_ok(), "other wires reserve nothing");
}
