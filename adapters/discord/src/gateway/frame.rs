//! The gateway's frames: what each that comes says, and those that we send.

use std::time::Duration;

use serde_json::{Value, json};
use serenity::{constants::Opcode, model::gateway::GatewayIntents};

use super::Position;

/// What is asked for: what happens in guilds and direct channels, and what people write there.
const INTENTS: GatewayIntents =
    GatewayIntents::GUILDS.union(GatewayIntents::GUILD_MESSAGES).union(GatewayIntents::DIRECT_MESSAGES);

/// The longest time between two heartbeats that is believed.
const LONGEST_INTERVAL: u64 = 3_600_000;

/// A frame from Discord.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Frame {
    /// The first one: how often a heartbeat is expected.
    Hello {
        interval: Duration,
    },
    /// A heartbeat is expected at once.
    BeatNow,
    /// A heartbeat was heard.
    Heard,
    /// We are to connect anew.
    Reconnect,
    /// The session is over, or only this connection of it.
    Invalid {
        resumable: bool,
    },
    Dispatch {
        seq: u64,
        name: String,
        data: Value,
    },
    /// Nothing that concerns us.
    Other,
}

/// Reads a frame. The error says what is wrong, without anything of its content.
pub(super) fn read(text: &str) -> Result<Frame, &'static str> {
    let Ok(mut frame) = serde_json::from_str::<Value>(text) else { return Err("it is no JSON") };
    let op = frame.get("op").and_then(Value::as_u64).and_then(|op| u8::try_from(op).ok());
    Ok(match Opcode::from(op.ok_or("it has no opcode")?) {
        Opcode::Dispatch => {
            let seq = frame.get("s").and_then(Value::as_u64).ok_or("an event without a number")?;
            let name = frame.get("t").and_then(Value::as_str).ok_or("an event without a name")?.to_owned();
            let data = frame.get_mut("d").map(Value::take).unwrap_or_default();
            Frame::Dispatch { seq, name, data }
        }
        Opcode::Heartbeat => Frame::BeatNow,
        Opcode::Reconnect => Frame::Reconnect,
        Opcode::InvalidSession => {
            Frame::Invalid { resumable: frame.get("d").and_then(Value::as_bool).unwrap_or(false) }
        }
        Opcode::Hello => {
            let interval = frame.pointer("/d/heartbeat_interval").and_then(Value::as_u64);
            let interval = interval.filter(|interval| *interval > 0).ok_or("a hello without an interval")?;
            Frame::Hello { interval: Duration::from_millis(interval.min(LONGEST_INTERVAL)) }
        }
        Opcode::HeartbeatAck => Frame::Heard,
        _ => Frame::Other,
    })
}

/// A frame to Discord.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said {
    /// A heartbeat, which tells the last event that came.
    Heartbeat(Option<u64>),
    /// Begins a session, which is to be shown what people write in guilds or not.
    Identify { content: bool },
    /// Goes on with a session.
    Resume(Position),
}

/// Writes a frame, which may hold the token.
pub(super) fn write(said: &Said, token: &str) -> String {
    let (op, data) = match said {
        Said::Heartbeat(seq) => (Opcode::Heartbeat, json!(seq)),
        Said::Identify { content } => {
            let intents = if *content { INTENTS.union(GatewayIntents::MESSAGE_CONTENT) } else { INTENTS };
            let properties = json!({ "os": std::env::consts::OS, "browser": "satchel", "device": "satchel" });
            (Opcode::Identify, json!({ "token": token, "intents": intents.bits(), "properties": properties }))
        }
        Said::Resume(Position { session_id, seq, .. }) => {
            (Opcode::Resume, json!({ "token": token, "session_id": session_id, "seq": seq }))
        }
    };
    json!({ "op": u8::from(op), "d": data }).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::hello(r#"{"op":10,"d":{"heartbeat_interval":41250,"_trace":[]}}"#, Frame::Hello { interval: Duration::from_millis(41_250) })]
    #[case::a_year(r#"{"op":10,"d":{"heartbeat_interval":31536000000}}"#, Frame::Hello { interval: Duration::from_secs(3_600) })]
    #[case::beat(r#"{"op":1,"d":null}"#, Frame::BeatNow)]
    #[case::heard(r#"{"op":11}"#, Frame::Heard)]
    #[case::reconnect(r#"{"op":7,"d":null}"#, Frame::Reconnect)]
    #[case::over(r#"{"op":9,"d":false}"#, Frame::Invalid { resumable: false })]
    #[case::interrupted(r#"{"op":9,"d":true}"#, Frame::Invalid { resumable: true })]
    #[case::nothing_said(r#"{"op":9}"#, Frame::Invalid { resumable: false })]
    #[case::event(r#"{"op":0,"s":7,"t":"A","d":{"b":1}}"#, Frame::Dispatch { seq: 7, name: "A".into(), data: json!({ "b": 1 }) })]
    #[case::empty_event(r#"{"op":0,"s":7,"t":"A"}"#, Frame::Dispatch { seq: 7, name: "A".into(), data: Value::Null })]
    #[case::new_opcode(r#"{"op":99,"d":{}}"#, Frame::Other)]
    fn frames_are_read(#[case] text: &str, #[case] frame: Frame) {
        assert_eq!(read(text), Ok(frame));
    }

    #[rstest]
    #[case::no_json("{\"op\":", "no JSON")]
    #[case::nothing("", "no JSON")]
    #[case::a_list("[1]", "no opcode")]
    #[case::an_opcode_in_words(r#"{"op":"ten"}"#, "no opcode")]
    #[case::a_large_opcode(r#"{"op":256}"#, "no opcode")]
    #[case::unnumbered(r#"{"op":0,"t":"A","d":{}}"#, "number")]
    #[case::unnamed(r#"{"op":0,"s":1,"d":{}}"#, "name")]
    #[case::no_interval(r#"{"op":10,"d":{}}"#, "interval")]
    #[case::no_time_at_all(r#"{"op":10,"d":{"heartbeat_interval":0}}"#, "interval")]
    fn invalid_frame_is_rejected_with_reason(#[case] text: &str, #[case] words: &str) {
        let reason = read(text).unwrap_err();
        assert!(reason.contains(words), "{reason}");
    }

    proptest! {
        #[test]
        fn nothing_that_comes_is_too_odd(text in ".*", op in 0_u8..20, rest in r#"(,"[dst]":(null|-1|7|"x"|\{\}|true)){0,3}"#) {
            let _no_panic = read(&text);
            let _no_panic = read(&format!(r#"{{"op":{op}{rest}}}"#));
        }
    }

    fn written(said: Said) -> Value {
        serde_json::from_str(&write(&said, "secret")).unwrap()
    }

    #[test]
    fn identify_requests_message_content_unless_refused() {
        let asked = |content| written(Said::Identify { content });
        assert_eq!(asked(true)["d"]["intents"], 1 | 1 << 9 | 1 << 12 | 1 << 15);
        assert_eq!(asked(false)["d"]["intents"], 1 | 1 << 9 | 1 << 12);
        assert_eq!((asked(true)["op"].clone(), asked(true)["d"]["token"].clone()), (json!(2), json!("secret")));
    }

    #[test]
    fn resuming_and_heartbeats_tell_the_last_event() {
        let position = Position {
            server: "https://x".into(),
            session_id: "abc".into(),
            resume_url: "wss://x".into(),
            seq: 41,
            content: true,
        };
        let resumed = json!({ "op": 6, "d": { "token": "secret", "session_id": "abc", "seq": 41 } });
        assert_eq!(written(Said::Resume(position)), resumed);
        assert_eq!(written(Said::Heartbeat(Some(41))), json!({ "op": 1, "d": 41 }));
        assert_eq!(written(Said::Heartbeat(None)), json!({ "op": 1, "d": null }));
    }
}
