//! What is said on a connection, by what was heard.

use rstest::rstest;
use serde_json::json;

use super::*;

const INTERVAL: Duration = Duration::from_secs(40);
const PATIENCE: Duration = Duration::from_secs(90);

fn position(seq: u64) -> Position {
    Position {
        server: "https://x".into(),
        session_id: "abc".into(),
        resume_url: "wss://again".into(),
        seq,
        content: true,
    }
}

fn talk(position: Option<Position>) -> Talk {
    Talk::new(true, "https://x".into(), position, Instant::now(), PATIENCE)
}

fn hear(talk: &mut Talk, frame: Frame) -> Step {
    talk.hear(frame, Instant::now(), 0.5)
}

fn hello(talk: &mut Talk) -> Step {
    hear(talk, Frame::Hello { interval: INTERVAL })
}

fn event(talk: &mut Talk, seq: u64, name: &str) -> Step {
    let data = json!({ "session_id": "new", "resume_gateway_url": "wss://elsewhere" });
    hear(talk, Frame::Dispatch { seq, name: name.to_owned(), data })
}

fn told(step: Step) -> (Position, String) {
    let Step::Tell(Event::Dispatch(Dispatch { position, name, .. })) = step else { panic!("{step:?}") };
    (position, name)
}

fn left(step: Step) -> Next {
    let Step::Leave(next, _) = step else { panic!("{step:?}") };
    next
}

#[test]
fn new_session_has_resume_state_after_ready() {
    let mut talk = talk(None);
    assert_eq!(hello(&mut talk), Step::Say(Said::Identify { content: true }));
    assert!(talk.began().is_some() && !talk.is_established());
    let (at, name) = told(event(&mut talk, 1, "READY"));
    assert_eq!((at.session_id.as_ref(), at.resume_url.as_ref(), at.seq), ("new", "wss://elsewhere", 1));
    assert!(name == "READY" && talk.is_established());
    assert_eq!(told(event(&mut talk, 2, "MESSAGE_CREATE")).0.seq, 2);
    assert_eq!(talk.position().unwrap().seq, 2);
}

#[test]
fn a_session_goes_on_where_it_was() {
    let mut talk = talk(Some(position(41)));
    assert_eq!(hello(&mut talk), Step::Say(Said::Resume(position(41))));
    assert_eq!(told(event(&mut talk, 42, "MESSAGE_CREATE")), (position(42), "MESSAGE_CREATE".to_owned()));
    assert!(!talk.is_established());
    assert_eq!(told(event(&mut talk, 43, "RESUMED")).0, position(43));
    assert!(talk.is_established() && talk.began().is_none());
}

#[test]
fn a_second_hello_begins_nothing() {
    let mut talk = talk(None);
    hello(&mut talk);
    assert_eq!(hello(&mut talk), Step::Nothing);
}

#[test]
fn heartbeat_carries_last_sequence_also_on_request() {
    let mut talk = talk(None);
    assert_eq!(hear(&mut talk, Frame::BeatNow), Step::Say(Said::Heartbeat(None)));
    hello(&mut talk);
    event(&mut talk, 1, "READY");
    event(&mut talk, 7, "MESSAGE_CREATE");
    assert_eq!(hear(&mut talk, Frame::BeatNow), Step::Say(Said::Heartbeat(Some(7))));
    let due = talk.due();
    assert_eq!(talk.beat(due, true), Step::Say(Said::Heartbeat(Some(7))));
    assert_eq!(talk.due(), due + INTERVAL);
}

#[test]
fn unacked_heartbeat_closes_connection_for_resume() {
    let mut talk = talk(Some(position(41)));
    hello(&mut talk);
    let due = talk.due();
    talk.beat(due, true);
    assert!(!talk.has_lasted());
    assert_eq!(left(talk.beat(due + INTERVAL, true)), Next::Resume);
}

#[test]
fn connection_has_lasted_after_ack_in_session() {
    let mut talk = talk(None);
    hello(&mut talk);
    hear(&mut talk, Frame::Heard);
    assert!(!talk.has_lasted());
    event(&mut talk, 1, "READY");
    hear(&mut talk, Frame::Heard);
    assert!(talk.has_lasted());
}

#[test]
fn who_does_not_say_hello_is_left() {
    let now = Instant::now();
    let mut talk = Talk::new(true, "https://x".into(), None, now, PATIENCE);
    assert_eq!(talk.due(), now + PATIENCE);
    assert_eq!(left(talk.beat(now + PATIENCE, true)), Next::Resume);
}

#[rstest]
#[case::another_connection(Frame::Reconnect, Next::Resume)]
#[case::interrupted(Frame::Invalid { resumable: true }, Next::Resume)]
#[case::over(Frame::Invalid { resumable: false }, Next::Anew)]
fn discord_says_how_it_goes_on(#[case] frame: Frame, #[case] next: Next) {
    let mut talk = talk(Some(position(41)));
    hello(&mut talk);
    assert_eq!(left(hear(&mut talk, frame)), next);
    assert_eq!(talk.position(), Some(&position(41)));
}

#[test]
fn what_never_began_cannot_go_on() {
    let mut talk = talk(None);
    hello(&mut talk);
    assert_eq!(left(hear(&mut talk, Frame::Invalid { resumable: true })), Next::Anew);
}

#[test]
fn event_before_ready_or_incomplete_ready_reidentifies() {
    let mut talk = talk(None);
    hello(&mut talk);
    assert_eq!(left(event(&mut talk, 5, "MESSAGE_CREATE")), Next::Anew);
    let nameless = Frame::Dispatch { seq: 1, name: "READY".to_owned(), data: json!({ "session_id": "new" }) };
    assert_eq!(left(hear(&mut talk, nameless)), Next::Anew);
}

#[test]
fn stalled_session_is_closed_unless_input_is_unread() {
    let mut talk = talk(Some(position(41)));
    hello(&mut talk);
    let mut now = Instant::now();
    for seq in [42, 43] {
        now += PATIENCE - Duration::from_secs(1);
        assert_ne!(talk.beat(now, false), Step::Leave(Next::Resume, "identifying got no session"));
        let missed = Frame::Dispatch { seq, name: "MESSAGE_CREATE".to_owned(), data: Value::Null };
        assert!(matches!(talk.hear(missed, now, 0.5), Step::Tell(_)));
        assert!(talk.went_on() && !talk.is_established());
        talk.hear(Frame::Heard, now, 0.5);
    }
    assert!(talk.due() <= now + PATIENCE);
    assert!(matches!(talk.beat(now + PATIENCE, false), Step::Say(Said::Heartbeat(Some(43)))));
    assert_eq!(left(talk.beat(now + PATIENCE * 2, true)), Next::Resume);
}

#[test]
fn an_event_that_comes_again_leads_nowhere() {
    let mut talk = talk(Some(position(41)));
    hello(&mut talk);
    event(&mut talk, 41, "MESSAGE_CREATE");
    assert!(!talk.went_on());
}
