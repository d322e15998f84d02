//! Who waits for whom.

use std::sync::Mutex as StdMutex;

use teloxide::types::ChatId;

use super::*;

const TELEGRAM: Pace =
    Pace { per_second: Some(30), per_conversation_second: Some(1), burst: 3, per_group_minute: Some(20) };

fn chat(number: i64) -> Place {
    Place { chat: ChatId(number), topic: None }
}

async fn take(pacer: &Pacer, place: Place, calls: usize) {
    for _ in 0..calls {
        pacer.wait(place, Call::Send(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_pace_is_no_waiting() {
    let start = Instant::now();
    take(&Pacer::new(None), chat(1), 1_000).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn one_chats_wait_is_not_anothers() {
    let pacer = Pacer::new(Some(TELEGRAM));
    take(&pacer, chat(1), 3).await;
    let start = Instant::now();
    take(&pacer, chat(2), 3).await;
    assert!(start.elapsed() < Duration::from_millis(200), "only what all chats share is waited for");
    take(&pacer, chat(1), 1).await;
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn sends_of_a_chat_go_in_the_order_in_which_they_came() {
    let pacer = Pacer::new(Some(TELEGRAM));
    let order = StdMutex::new(Vec::new());
    let sends = (0..10).map(|number| {
        let (pacer, order) = (&pacer, &order);
        async move {
            pacer.wait(chat(1), Call::Send(1)).await;
            order.lock().unwrap().push(number);
        }
    });
    futures::future::join_all(sends).await;
    assert_eq!(order.into_inner().unwrap(), (0..10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_send_goes_before_an_edit_that_came_earlier() {
    let pacer = Pacer::new(Some(TELEGRAM));
    take(&pacer, chat(1), 3).await;
    let start = Instant::now();
    let edit = async {
        pacer.wait(chat(1), Call::Edit).await;
        start.elapsed()
    };
    let send = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        pacer.wait(chat(1), Call::Send(1)).await;
        start.elapsed()
    };
    let (edited, sent) = tokio::join!(edit, send);
    assert!(sent < edited, "sent after {sent:?}, edited after {edited:?}");
    assert!(edited <= Duration::from_secs(4), "an edit does not wait for ever: {edited:?}");
}

#[tokio::test(start_paused = true)]
async fn an_edit_does_not_give_way_for_ever() {
    let pacer = Pacer::new(Some(TELEGRAM));
    let start = Instant::now();
    let flood = async {
        loop {
            pacer.wait(chat(1), Call::Send(1)).await;
        }
    };
    let edit = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        pacer.wait(chat(1), Call::Edit).await;
    };
    tokio::select! {
        () = flood => {}
        () = edit => {}
    }
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn whoever_stops_waiting_leaves_no_gap() {
    let pacer = Pacer::new(Some(TELEGRAM));
    take(&pacer, chat(1), 3).await;
    let start = Instant::now();
    let given_up = tokio::time::timeout(Duration::from_millis(500), pacer.wait(chat(1), Call::Send(1))).await;
    assert!(given_up.is_err());
    take(&pacer, chat(1), 1).await;
    assert!(start.elapsed() < Duration::from_millis(1_100), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_429_closes_its_chat_and_a_second_one_everything() {
    let pacer = Pacer::new(Some(TELEGRAM));
    let start = Instant::now();
    pacer.close(chat(1), Duration::from_secs(9));
    take(&pacer, chat(2), 1).await;
    assert_eq!(start.elapsed(), Duration::ZERO, "another chat is not meant");
    pacer.close(chat(2), Duration::from_secs(5));
    take(&pacer, chat(3), 1).await;
    assert_eq!(start.elapsed().as_secs(), 5, "two chats: the bot is meant");
    take(&pacer, chat(1), 1).await;
    assert_eq!(start.elapsed().as_secs(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_429_is_heeded_by_those_who_wait_already() {
    let pacer = Pacer::new(Some(TELEGRAM));
    take(&pacer, chat(1), 3).await;
    let start = Instant::now();
    let waiting = pacer.wait(chat(1), Call::Send(1));
    let told = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        pacer.close(chat(1), Duration::from_secs(20));
    };
    tokio::join!(waiting, told);
    assert!(start.elapsed() >= Duration::from_secs(20), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn quiet_chats_are_forgotten() {
    let pacer = Pacer::new(Some(Pace { per_second: None, ..TELEGRAM }));
    for number in 0..3_000 {
        take(&pacer, chat(number), 1).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(pacer.chats().len() <= REMEMBERED, "{}", pacer.chats().len());
}
