//! What the gateway protocol does about each event.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

const INTERVAL: Duration = Duration::from_secs(40);
const TIMEOUT: Duration = Duration::from_secs(90);

fn resume_state(seq: u64) -> ResumeState {
    ResumeState {
        server: "https://x".into(),
        session_id: "abc".into(),
        resume_url: "wss://resume".into(),
        seq,
        has_message_content: true,
    }
}

fn connected(resume_state: Option<ResumeState>, now: Instant) -> GatewayProtocol {
    let mut protocol = GatewayProtocol::new("https://x", resume_state, TIMEOUT, now);
    protocol.on(ProtocolEvent::Connected { jitter: 0.5 }, now);
    protocol
}

fn receive(protocol: &mut GatewayProtocol, frame: Value) -> ProtocolAction {
    protocol.on(ProtocolEvent::Text(frame.to_string()), Instant::now())
}

fn hello(protocol: &mut GatewayProtocol) -> ProtocolAction {
    receive(protocol, json!({ "op": 10, "d": { "heartbeat_interval": 40_000 } }))
}

fn greeted(resume_state: Option<ResumeState>) -> GatewayProtocol {
    let mut protocol = connected(resume_state, Instant::now());
    hello(&mut protocol);
    protocol
}

fn tick(protocol: &mut GatewayProtocol, now: Instant, is_reading: bool) -> ProtocolAction {
    protocol.on(ProtocolEvent::Timer { is_reading }, now)
}

fn dispatch(protocol: &mut GatewayProtocol, seq: u64, name: &str) -> ProtocolAction {
    let data = json!({ "session_id": "new", "resume_gateway_url": "wss://elsewhere" });
    receive(protocol, json!({ "op": 0, "s": seq, "t": name, "d": data }))
}

fn closed(protocol: &mut GatewayProtocol, code: Option<u16>) -> Reconnect {
    reconnect(protocol.on(ProtocolEvent::Closed { code, reason: String::new() }, Instant::now()))
}

fn sent(action: ProtocolAction) -> ClientFrame {
    let ProtocolAction::Send(frame) = action else { panic!("{action:?}") };
    frame
}

fn emitted(action: ProtocolAction) -> (ResumeState, String) {
    let ProtocolAction::Emit { event, .. } = action else { panic!("{action:?}") };
    let GatewayEvent::Dispatch { resume_state, name, .. } = event else { panic!("{event:?}") };
    (resume_state, name)
}

fn encoded(frame: ClientFrame) -> Value {
    serde_json::from_str(&frame.encode("secret")).unwrap()
}

fn reconnect(action: ProtocolAction) -> Reconnect {
    let ProtocolAction::Close { reconnect, .. } = action else { panic!("{action:?}") };
    reconnect
}

#[rstest]
#[case::hello(r#"{"op":10,"d":{"heartbeat_interval":41250,"_trace":[]}}"#, ServerFrame::Hello { interval: Duration::from_millis(41_250) })]
#[case::a_year(r#"{"op":10,"d":{"heartbeat_interval":31536000000}}"#, ServerFrame::Hello { interval: Duration::from_secs(3_600) })]
#[case::heartbeat(r#"{"op":1,"d":null}"#, ServerFrame::HeartbeatRequest)]
#[case::ack(r#"{"op":11}"#, ServerFrame::HeartbeatAck)]
#[case::reconnect(r#"{"op":7,"d":null}"#, ServerFrame::Reconnect)]
#[case::invalid(r#"{"op":9,"d":false}"#, ServerFrame::InvalidSession { is_resumable: false })]
#[case::resumable(r#"{"op":9,"d":true}"#, ServerFrame::InvalidSession { is_resumable: true })]
#[case::unspecified(r#"{"op":9}"#, ServerFrame::InvalidSession { is_resumable: false })]
#[case::event(r#"{"op":0,"s":7,"t":"A","d":{"b":1}}"#, ServerFrame::Dispatch { seq: 7, name: "A".into(), data: json!({ "b": 1 }) })]
#[case::empty_event(r#"{"op":0,"s":7,"t":"A"}"#, ServerFrame::Dispatch { seq: 7, name: "A".into(), data: Value::Null })]
#[case::new_opcode(r#"{"op":99,"d":{}}"#, ServerFrame::Other)]
fn frames_are_read(#[case] text: &str, #[case] frame: ServerFrame) {
    assert_eq!(ServerFrame::parse(text), Ok(frame));
}

#[rstest]
#[case("no JSON", &["{\"op\":", ""])]
#[case("no opcode", &["[1]", r#"{"op":"ten"}"#, r#"{"op":256}"#])]
#[case("number", &[r#"{"op":0,"t":"A","d":{}}"#])]
#[case("name", &[r#"{"op":0,"s":1,"d":{}}"#])]
#[case("interval", &[r#"{"op":10,"d":{}}"#, r#"{"op":10,"d":{"heartbeat_interval":0}}"#])]
fn invalid_frame_is_rejected_with_reason(#[case] words: &str, #[case] frames: &[&str]) {
    for frame in frames {
        let reason = ServerFrame::parse(frame).unwrap_err();
        assert!(reason.contains(words), "{frame}: {reason}");
    }
}

proptest! {
    #[test]
    fn no_frame_panics(text in ".*", op in 0_u8..20, rest in r#"(,"[dst]":(null|-1|7|"x"|\{\}|true)){0,3}"#) {
        let _no_panic = ServerFrame::parse(&text);
        let _no_panic = ServerFrame::parse(&format!(r#"{{"op":{op}{rest}}}"#));
    }
}

#[test]
fn identify_requests_message_content_unless_refused() {
    let identify = |has_message_content| encoded(ClientFrame::Identify { has_message_content });
    assert_eq!(identify(true)["d"]["intents"], 1 | 1 << 9 | 1 << 12 | 1 << 15);
    assert_eq!(identify(false)["d"]["intents"], 1 | 1 << 9 | 1 << 12);
    assert_eq!((identify(true)["op"].clone(), identify(true)["d"]["token"].clone()), (json!(2), json!("secret")));
}

#[test]
fn resume_and_heartbeat_carry_last_sequence() {
    let resume = json!({ "op": 6, "d": { "token": "secret", "session_id": "abc", "seq": 41 } });
    assert_eq!(encoded(ClientFrame::Resume(resume_state(41))), resume);
    assert_eq!(encoded(ClientFrame::Heartbeat(Some(41))), json!({ "op": 1, "d": 41 }));
    assert_eq!(encoded(ClientFrame::Heartbeat(None)), json!({ "op": 1, "d": null }));
}

#[rstest]
#[case::resumable(&[1001, 4000, 4001, 4002, 4003, 4005, 4008, 4099, CLOSE_KEEPING_SESSION], true)]
#[case::session_over(&[4007, 4009], false)]
fn each_close_code_decides_how_to_continue(#[case] codes: &[u16], #[case] resumes: bool) {
    for code in codes.iter().map(|code| Some(*code)).chain(resumes.then_some(None)) {
        let mut protocol = greeted(Some(resume_state(41)));
        let next = closed(&mut protocol, code);
        assert_eq!(protocol.resume_state.is_some(), resumes, "{code:?}");
        assert_eq!(matches!(next, Reconnect::Outage { is_session_dropped: false }), resumes, "{code:?}: {next:?}");
        assert_eq!(matches!(next, Reconnect::NewSession { is_outage: false }), !resumes, "{code:?}: {next:?}");
    }
    assert!(![1000, 1001].contains(&CLOSE_KEEPING_SESSION));
}

#[test]
fn fatal_close_code_is_reported_with_remedy() {
    for (code, words) in
        [(4010, "update Satchel"), (4011, "guilds"), (4012, "update Satchel"), (4013, "update Satchel")]
    {
        let next = closed(&mut greeted(None), Some(code));
        assert!(matches!(&next, Reconnect::Fail(error) if error.to_string().contains(words)), "{code}: {next:?}");
    }
}

#[test]
fn refused_intent_or_token_fails_only_without_alternative() {
    let mut protocol = greeted(Some(resume_state(41)));
    assert!(matches!(closed(&mut protocol, Some(4004)), Reconnect::Outage { is_session_dropped: false }));
    assert!(matches!(closed(&mut protocol, Some(4004)), Reconnect::AccountRefused));
    assert!(matches!(closed(&mut protocol, Some(4014)), Reconnect::WithoutMessageContent));
    protocol.on(ProtocolEvent::Connected { jitter: 0.0 }, Instant::now());
    assert_eq!(sent(hello(&mut protocol)), ClientFrame::Identify { has_message_content: false });
    assert!(matches!(closed(&mut protocol, Some(4014)), Reconnect::Fail(DiscordError::Refused { .. })));
}

#[test]
fn first_heartbeat_is_due_within_the_interval() {
    let now = Instant::now();
    for (jitter, seconds) in [(0.0, 0), (0.5, 20), (1.0, 40), (7.0, 40), (-1.0, 0)] {
        let heartbeat = Heartbeat::new(now, INTERVAL, jitter);
        assert_eq!(heartbeat.next_at, now + Duration::from_secs(seconds), "{jitter}");
    }
}

#[test]
fn acked_heartbeat_is_followed_by_next() {
    let start = Instant::now();
    let mut heartbeat = Heartbeat::new(start, INTERVAL, 1.0);
    for beat in 1..5 {
        assert_eq!(heartbeat.next_at, start + INTERVAL * beat);
        assert!(heartbeat.tick(heartbeat.next_at, true));
        heartbeat.on_ack();
    }
}

#[rstest]
#[case::without_ack(&[true, true], false, 1)]
// The ack may be unread during a pause, and be read only in the interval after it.
#[case::after_a_pause(&[true, false, false, true, true], false, 4)]
// Three intervals without a pause pass until then; the pauses between them hide that no ack arrives.
#[case::despite_other_frames(&[true, false, true, true, false, true, true, true, true], true, 7)]
fn missing_acks_mean_dead_connection(#[case] readings: &[bool], #[case] has_frames: bool, #[case] beats: usize) {
    let mut heartbeat = Heartbeat::new(Instant::now(), INTERVAL, 0.0);
    let is_dead = |is_reading: &bool| {
        let is_sent = heartbeat.tick(heartbeat.next_at, *is_reading);
        heartbeat.has_received = has_frames;
        !is_sent
    };
    assert_eq!(readings.iter().position(is_dead), Some(beats));
}

#[test]
fn backlog_extends_ack_time_while_frames_arrive() {
    let mut heartbeat = Heartbeat::new(Instant::now(), INTERVAL, 0.0);
    for is_reading in [true, false, false, true] {
        assert!(heartbeat.tick(heartbeat.next_at, is_reading));
    }
    for acks in [0, 1, 0] {
        heartbeat.has_received = true;
        (0..acks).for_each(|_| heartbeat.on_ack());
        assert!(heartbeat.tick(heartbeat.next_at, true), "the acks are behind what has piled up");
    }
    (0..7).for_each(|_| heartbeat.on_ack());
    assert!(heartbeat.tick(heartbeat.next_at, true));
    heartbeat.has_received = true;
    assert!(!heartbeat.tick(heartbeat.next_at, true), "the backlog is gone");
}

#[test]
fn new_session_has_resume_state_after_ready() {
    let mut protocol = connected(None, Instant::now());
    assert_eq!(sent(hello(&mut protocol)), ClientFrame::Identify { has_message_content: true });
    assert!(protocol.identified_at.is_some() && !protocol.connection.is_ready);
    let (state, name) = emitted(dispatch(&mut protocol, 1, "READY"));
    assert_eq!((state.session_id.as_ref(), state.resume_url.as_ref(), state.seq), ("new", "wss://elsewhere", 1));
    assert!(name == "READY" && protocol.connection.is_ready);
    assert_eq!(emitted(dispatch(&mut protocol, 2, "MESSAGE_CREATE")).0.seq, 2);
    assert_eq!(protocol.resume_state.unwrap().seq, 2);
}

#[test]
fn session_resumes_at_its_position() {
    let mut protocol = connected(Some(resume_state(41)), Instant::now());
    assert_eq!(sent(hello(&mut protocol)), ClientFrame::Resume(resume_state(41)));
    assert!(matches!(hello(&mut protocol), ProtocolAction::None), "a second hello changes nothing");
    dispatch(&mut protocol, 41, "MESSAGE_CREATE");
    assert!(!protocol.connection.made_progress, "this event is no new one");
    let replayed = emitted(dispatch(&mut protocol, 42, "MESSAGE_CREATE"));
    assert_eq!(replayed, (resume_state(42), "MESSAGE_CREATE".to_owned()));
    assert!(!protocol.connection.is_ready);
    assert_eq!(emitted(dispatch(&mut protocol, 43, "RESUMED")).0, resume_state(43));
    assert!(protocol.connection.is_ready && protocol.identified_at.is_none());
}

#[test]
fn heartbeat_carries_last_sequence_also_on_request() {
    let mut protocol = connected(None, Instant::now());
    assert_eq!(sent(receive(&mut protocol, json!({ "op": 1 }))), ClientFrame::Heartbeat(None));
    hello(&mut protocol);
    dispatch(&mut protocol, 1, "READY");
    dispatch(&mut protocol, 7, "MESSAGE_CREATE");
    assert_eq!(sent(receive(&mut protocol, json!({ "op": 1 }))), ClientFrame::Heartbeat(Some(7)));
    let due = protocol.next_timer();
    assert_eq!(sent(tick(&mut protocol, due, true)), ClientFrame::Heartbeat(Some(7)));
    assert_eq!(protocol.next_timer(), due + INTERVAL);
}

#[test]
fn unacked_heartbeat_closes_connection_for_resume() {
    let mut protocol = greeted(Some(resume_state(41)));
    let due = protocol.next_timer();
    tick(&mut protocol, due, true);
    assert!(!protocol.connection.has_lasted);
    let closed = tick(&mut protocol, due + INTERVAL, true);
    assert!(matches!(reconnect(closed), Reconnect::Outage { is_session_dropped: false }));
    assert_eq!(protocol.resume_state, Some(resume_state(41)));
}

#[test]
fn connection_has_lasted_after_ack_in_session() {
    let mut protocol = greeted(None);
    receive(&mut protocol, json!({ "op": 11 }));
    assert!(!protocol.connection.has_lasted);
    dispatch(&mut protocol, 1, "READY");
    receive(&mut protocol, json!({ "op": 11 }));
    assert!(protocol.connection.has_lasted);
}

#[test]
fn connection_without_hello_is_closed() {
    let now = Instant::now();
    let mut protocol = connected(None, now);
    assert_eq!(protocol.next_timer(), now + TIMEOUT);
    let closed = tick(&mut protocol, now + TIMEOUT, true);
    assert!(matches!(reconnect(closed), Reconnect::Outage { is_session_dropped: false }));
}

#[rstest]
#[case::reconnect_request(json!({ "op": 7 }), true)]
#[case::resumable(json!({ "op": 9, "d": true }), true)]
#[case::invalidated(json!({ "op": 9, "d": false }), false)]
fn session_is_resumed_unless_discord_invalidates_it(#[case] frame: Value, #[case] resumes: bool) {
    let mut protocol = greeted(Some(resume_state(41)));
    let next = reconnect(receive(&mut protocol, frame));
    assert!(matches!(
        (next, resumes),
        (Reconnect::Outage { is_session_dropped: false }, true) | (Reconnect::NewSession { is_outage: false }, false)
    ));
    assert_eq!(protocol.resume_state, resumes.then(|| resume_state(41)));
    assert_eq!(protocol.resume_url(), resumes.then_some("wss://resume"));
}

#[test]
fn session_without_ready_is_replaced() {
    let nameless = json!({ "op": 0, "s": 1, "t": "READY", "d": { "session_id": "new" } });
    let early = json!({ "op": 0, "s": 5, "t": "MESSAGE_CREATE", "d": {} });
    for frame in [nameless, early, json!({ "op": 9, "d": true })] {
        let next = reconnect(receive(&mut greeted(None), frame.clone()));
        assert!(matches!(next, Reconnect::NewSession { is_outage: true }), "{frame}: {next:?}");
    }
}

#[test]
fn stalled_session_is_closed_unless_input_is_unread() {
    let (mut protocol, mut now) = (greeted(Some(resume_state(41))), Instant::now());
    for seq in [42, 43] {
        now += TIMEOUT - Duration::from_secs(1);
        assert!(!matches!(tick(&mut protocol, now, false), ProtocolAction::Close { .. }));
        let missed = json!({ "op": 0, "s": seq, "t": "MESSAGE_CREATE" }).to_string();
        assert!(matches!(protocol.on(ProtocolEvent::Text(missed), now), ProtocolAction::Emit { .. }));
        assert!(protocol.connection.made_progress && !protocol.connection.is_ready);
        protocol.on(ProtocolEvent::Text(json!({ "op": 11 }).to_string()), now);
    }
    assert!(protocol.next_timer() <= now + TIMEOUT);
    assert_eq!(sent(tick(&mut protocol, now + TIMEOUT, false)), ClientFrame::Heartbeat(Some(43)));
    let next = reconnect(tick(&mut protocol, now + TIMEOUT * 2, true));
    assert!(matches!(next, Reconnect::Outage { is_session_dropped: false }), "{next:?}");
    assert_eq!(protocol.resume_state, Some(resume_state(43)));
}
