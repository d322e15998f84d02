//! Waits: before another attempt, for an answer to begin, between its pieces; and that a dropped stream ends its request.

use std::time::{Duration, Instant};

use futures::StreamExt;
use satchel_fake_model::{
    ModelFault, ModelReply, ModelWire, ProviderErrorCase, RecordedRequest, ReplyPiece, RequestStatus,
};
use satchel_models::RequestPolicy;
use satchel_ports::{LanguageModel, ModelEvent};

use crate::stage::{Stage, ask, request, short_policy, user};

fn gaps(asked: &[RecordedRequest]) -> Vec<Duration> {
    asked.windows(2).map(|two| two[1].at - two[0].at).collect()
}

#[tokio::test]
async fn the_servers_wait_is_a_floor() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        stage.server.reply(ModelReply::fault(ModelFault::RateLimit { retry_after: "0.3".into() }));
        stage.server.reply(ModelReply::text("now"));
        let answer = ask(&stage.model(wire), request(vec![user("hello", Vec::new())])).await;
        assert_eq!((answer.text().as_str(), answer.error), ("now", None), "{wire:?}");
        let gaps = gaps(&stage.server.requests());
        assert!(gaps.len() == 1 && gaps[0] >= Duration::from_millis(300), "{wire:?} {gaps:?}");
    }
}

#[tokio::test]
async fn waits_grow_and_end() {
    let stage = Stage::new().await;
    stage.server.reply(ModelReply::fault(ModelFault::Says(ProviderErrorCase::Overloaded)).every_time());
    let patience = RequestPolicy { min_delay: Duration::from_millis(60), ..short_policy() };
    let model = stage.model_with_policy(stage.settings(ModelWire::Anthropic), patience);
    assert!(ask(&model, request(vec![user("hello", Vec::new())])).await.error.is_some());
    let gaps = gaps(&stage.server.requests());
    assert_eq!(gaps.len(), 3, "three repeats and no more");
    for (gap, least) in gaps.iter().zip([60, 120, 240]) {
        assert!(*gap >= Duration::from_millis(least), "{gaps:?}");
    }
}

#[tokio::test]
async fn answer_that_never_starts_times_out_without_retry() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        stage.server.reply(ModelReply::fault(ModelFault::Hang).every_time());
        let patience = RequestPolicy { response_timeout: Duration::from_millis(150), ..short_policy() };
        let begun = Instant::now();
        let answer =
            ask(&stage.model_with_policy(stage.settings(wire), patience), request(vec![user("hi", Vec::new())])).await;
        let error = answer.error.unwrap();
        assert!(error.reason.ends_with("did not start to answer in time") && error.retryable, "{wire:?} {error}");
        assert!(begun.elapsed() < Duration::from_secs(4), "{wire:?}");
        assert_eq!(stage.server.requests().len(), 1, "{wire:?}: it has had its time");
        stage.server.wait_until(|asked| asked[0].status == RequestStatus::Abandoned).await.unwrap();
    }
}

#[tokio::test]
async fn an_answer_that_falls_silent_is_given_up() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        stage.server.reply(ModelReply::pieces([ReplyPiece::Text("Well, ".into()), ReplyPiece::Hang]));
        let patience = RequestPolicy { idle_timeout: Duration::from_millis(150), ..short_policy() };
        let answer =
            ask(&stage.model_with_policy(stage.settings(wire), patience), request(vec![user("hi", Vec::new())])).await;
        assert_eq!(answer.text(), "Well, ", "{wire:?}");
        let error = answer.error.unwrap();
        assert!(error.reason.contains("stopped sending in the middle of its answer"), "{wire:?} {error}");
        assert!(error.retryable, "{wire:?}");
    }
}

/// Signs of life keep a slow answer alive: it is silence that ends it, not slowness.
#[tokio::test]
async fn a_slow_answer_is_waited_for() {
    let stage = Stage::new().await;
    let slow = (0..20).flat_map(|_| [ReplyPiece::Wait(Duration::from_millis(100)), ReplyPiece::Ping]);
    stage.server.reply(ModelReply::pieces(slow.chain([ReplyPiece::Text("at last".into())])));
    let patience = RequestPolicy { idle_timeout: Duration::from_millis(1_500), ..short_policy() };
    let model = stage.model_with_policy(stage.settings(ModelWire::Anthropic), patience);
    let answer = ask(&model, request(vec![user("hi", Vec::new())])).await;
    assert_eq!((answer.text().as_str(), answer.error), ("at last", None));
}

#[tokio::test]
async fn a_dropped_stream_ends_its_request() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        stage.server.reply(ModelReply::pieces([ReplyPiece::Text("So ".into()), ReplyPiece::Hang]));
        let model = stage.model(wire);
        let mut answer = model.stream(&request(vec![user("hi", Vec::new())])).await.unwrap();
        assert_eq!(answer.next().await, Some(Ok(ModelEvent::Text("So ".into()))), "{wire:?}");
        assert_eq!(stage.server.last().status, RequestStatus::Running, "{wire:?}");
        drop(answer);
        stage.server.wait_until(|asked| asked[0].status == RequestStatus::Abandoned).await.expect("the server sees it");
    }
}

/// The same while nothing has come yet.
#[tokio::test]
async fn a_dropped_question_ends_its_request() {
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        stage.server.reply(ModelReply::fault(ModelFault::Hang));
        let model = stage.model(wire);
        let request = request(vec![user("hi", Vec::new())]);
        let asking = model.stream(&request);
        tokio::select! {
            _ = asking => panic!("it hangs"),
            arrived = stage.server.wait_until(|asked| !asked.is_empty()) => arrived.unwrap(),
        }
        stage.server.wait_until(|asked| asked[0].status == RequestStatus::Abandoned).await.expect("the server sees it");
    }
}
