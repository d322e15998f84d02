//! The worker's own functions, as scripts use them.

use base64::{Engine, engine::general_purpose::STANDARD};
use satchel_starlark::protocol::{CHUNK_BYTES, Chunk, FileHeader, FromWorker};
use serde_json::json;

use crate::worker::{Told, evaluate, failure, value};

/// The file that a script made, with its bytes, checked for the order of what was said.
fn file(told: &Told) -> (FileHeader, Vec<Chunk>) {
    let [FromWorker::Create(new), chunks @ .., FromWorker::End] = told.said.as_slice() else {
        panic!("{:?}", told.said)
    };
    let chunk = |message: &FromWorker| match message {
        FromWorker::Chunk(chunk) => chunk.clone(),
        other => panic!("{other:?}"),
    };
    (new.clone(), chunks.iter().map(chunk).collect())
}

fn bytes(chunks: &[Chunk]) -> Vec<u8> {
    let bytes = |chunk: &Chunk| match chunk {
        Chunk::Text(text) => text.clone().into_bytes(),
        Chunk::Base64(text) => STANDARD.decode(text).unwrap(),
    };
    chunks.iter().flat_map(bytes).collect()
}

#[test]
fn text_file_is_sent_and_returns_its_id() {
    let told = evaluate(
        "return attachment_create('é', 'a.txt', description='d', mime_type='text/plain', visibility='internal')",
    );
    assert_eq!(told.outcome, Ok(json!("file-1")));
    let (new, chunks) = file(&told);
    let expected = ["a.txt", "d", "text/plain", "internal"].map(str::to_owned);
    assert_eq!([new.filename, new.description, new.mime_type, new.visibility], expected);
    assert_eq!(chunks, [Chunk::Text("é".to_owned())]);
}

#[test]
fn a_file_has_the_usual_defaults() {
    let (new, chunks) = file(&evaluate("attachment_create(content='', filename='x')"));
    assert_eq!(
        (new.description.as_str(), new.mime_type.as_str(), new.visibility.as_str()),
        ("", "application/octet-stream", "deliver")
    );
    assert_eq!(chunks, []);
}

/// Three bytes a character, so that the cut would fall within one.
#[test]
fn a_long_text_is_cut_between_characters() {
    let (_, chunks) = file(&evaluate("attachment_create('a' + '–' * 100000, 'x')"));
    assert_eq!(chunks.len(), 300_001_usize.div_ceil(CHUNK_BYTES));
    assert!(chunks.iter().all(|chunk| matches!(chunk, Chunk::Text(text) if text.len() <= CHUNK_BYTES)));
    assert_eq!(bytes(&chunks), format!("a{}", "–".repeat(100_000)).into_bytes());
}

#[test]
fn bytes_and_base64_arrive_as_they_were() {
    let (_, chunks) = file(&evaluate("attachment_create(b'\\x00\\xff' * 60000, 'x')"));
    assert_eq!(bytes(&chunks), [0, 255].repeat(60_000));
    assert_eq!(chunks.len(), 3);
    let script = "attachment_create('AP8A\\n /w= =', 'x', encoding='base64')".replace("= =", "==");
    assert_eq!(bytes(&file(&evaluate(&script)).1), [0, 255, 0, 255]);
    let (_, chunks) = file(&evaluate("attachment_create('AAAA' * 50000 + 'QQ', 'x', encoding='base64')"));
    assert_eq!(bytes(&chunks).len(), 150_001);
    assert!(chunks.iter().all(|chunk| bytes(std::slice::from_ref(chunk)).len() <= CHUNK_BYTES));
}

#[test]
fn invalid_file_is_an_error_before_any_message() {
    for (script, words) in [
        ("attachment_create({'a': 1}, 'x')", "must be text or bytes, not dict: json_encode"),
        ("attachment_create(1, 'x')", "must be text or bytes, not int"),
        ("attachment_create('AA!A', 'x', encoding='base64')", "not the base64"),
        ("attachment_create('A', 'x', encoding='base64')", "not the base64"),
        ("attachment_create('A', 'x', encoding='latin-1')", "must be \"utf-8\" or \"base64\""),
        ("attachment_create(b'A', 'x', encoding='base64')", "bytes already"),
        ("attachment_create('A', 'x', description='d' * 20000)", "more than 16384 bytes together as JSON"),
        ("attachment_create('A')", "filename"),
        ("attachment_create('A', 1)", "`filename` doesn't match"),
    ] {
        let told = evaluate(script);
        let failure = told.outcome.unwrap_err();
        assert!(failure.message.contains(words), "{script}\n{failure:?}");
        assert_eq!((failure.line, failure.column), (Some(1), Some(1)), "{script}\n{failure:?}");
        assert!(told.said.is_empty());
    }
}

#[test]
fn json_goes_both_ways() {
    for (script, expected) in [
        (
            "json_encode(json_decode('{\"a\":[1,2.5,2.0,null,true,\"é\"]}'))",
            json!("{\"a\":[1,2.5,2.0,null,true,\"é\"]}"),
        ),
        ("json_encode({'a': [1], 'b': {}}, indent=2)", json!("{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}")),
        ("json_encode([1, 'x'], indent=None)", json!("[1,\"x\"]")),
        ("json_decode('123456789012345678901234567890') + 1 == 123456789012345678901234567891", json!(true)),
        ("json.encode(json.decode('[1, 18446744073709551616]'))", json!("[1,\"18446744073709551616\"]")),
        ("json_decode('18446744073709551615') - 1", json!(18446744073709551614_u64)),
        ("[type(x) for x in json_decode('[1, 1.0, 1e2]')]", json!(["int", "float", "float"])),
    ] {
        assert_eq!(value(script), expected, "{script}");
    }
}

#[test]
fn undecodable_or_unencodable_json_is_an_error() {
    for (script, words) in [
        ("json_decode('{')", "json_decode: EOF"),
        ("json_decode('[1e400]')", "too large"),
        ("json_decode('1' * 100000)", "too many digits"),
        ("json_decode('[' * 1000)", "recursion limit"),
        ("json_decode(None)", "takes text, not NoneType"),
        ("json_encode(float('nan'))", "nan"),
        ("json_encode(1, indent=-1)", "indent must be"),
        ("json_encode(1, indent=100000000)", "indent must be"),
        ("x = []\nx.append(x)\njson_encode(x)", "64 levels"),
        ("x = {}\nx['x'] = x\njson.encode(x)", "64 levels"),
        ("json.decode('1e400')", "too large"),
    ] {
        let failure = failure(script);
        assert!(failure.message.contains(words), "{script}\n{failure:?}");
    }
}

#[test]
fn the_time_is_text_that_can_be_joined() {
    let now = value("return 'Generated at: ' + time_now()");
    let now = now.as_str().unwrap().strip_prefix("Generated at: ").unwrap();
    assert!(now.len() == 20 && now.ends_with('Z') && now.as_bytes()[10] == b'T', "{now}");
    assert_eq!(value("abs(time_parse(time_now()) - time_unix()) <= 1"), json!(true));
}

#[test]
fn times_are_read_computed_and_written() {
    for (script, expected) in [
        ("time_parse('2026-11-22T12:00:00Z')", json!(1_795_348_800)),
        ("time_parse('2026-11-22T12:00:00+11:00')", json!(1_795_309_200)),
        ("time_parse('2026-11-22 12:00')", json!(1_795_348_800)),
        ("time_parse('2026-11-22')", json!(1_795_305_600)),
        ("time_parse('1969-12-31T23:59:58.5Z')", json!(-2)),
        ("time_format(1795348800)", json!("2026-11-22T12:00:00Z")),
        ("time_format(1795348800, format='%A %d %B %Y, %H:%M')", json!("Sunday 22 November 2026, 12:00")),
        ("time_add('2026-11-22T12:00:00Z', days=1, hours=-1, minutes=30, seconds=5)", json!("2026-11-23T11:30:05Z")),
        ("time_add('2024-02-28', days=1)", json!("2024-02-29T00:00:00Z")),
    ] {
        assert_eq!(value(script), expected, "{script}");
    }
}

#[test]
fn invalid_time_is_an_error() {
    for (script, words) in [
        ("time_parse('tomorrow')", "is no time such as"),
        ("time_format(1 << 60)", "out of the calendar's range"),
        ("time_format(0, format='%')", "can't be used"),
        ("time_format(0, format='%!')", "can't be used"),
        ("time_add('2026-11-22', days=1 << 60)", "out of the calendar's range"),
        ("time_add('2026-11-22', days=9000000)", "out of the calendar's range"),
    ] {
        let failure = failure(script);
        assert!(failure.message.contains(words), "{script}\n{failure:?}");
    }
}

#[test]
fn a_model_is_woken_with_a_context() {
    let told = evaluate("wake_llm({'why': 'test'})\nwake_llm(context='b', include_event=False)");
    let said: Vec<_> = told.said.iter().map(|message| serde_json::to_value(message).unwrap()).collect();
    assert_eq!(
        said,
        [
            json!({"wake": {"context": {"why": "test"}, "include_event": true}}),
            json!({"wake": {"context": "b", "include_event": false}}),
        ]
    );
}

#[test]
fn the_contexts_are_bounded_together() {
    let told = evaluate("for i in range(10):\n    wake_llm('x' * 300000)");
    assert_eq!(told.said.len(), 3);
    assert!(told.outcome.unwrap_err().message.contains("together"));
}

#[test]
fn what_is_printed_is_said_at_once() {
    let told = evaluate("print('a', 1, [2.0])\necho()\nprint()");
    assert_eq!(told.said[0], FromWorker::Print("a 1 [2.0]".to_owned()));
    assert!(matches!(told.said[1], FromWorker::Call(_)));
    assert_eq!(told.said[2], FromWorker::Print(String::new()));
}
