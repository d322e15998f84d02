//! What closes an account, what opens it again, and how often the platform is asked meanwhile.

use std::{
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use futures::FutureExt;
use satchel_wait::wait_until;

use super::*;
use crate::error::tests::StubRefusal;

/// A platform that accepts one token, and counts how often it is asked.
#[derive(Default)]
struct StubPlatform {
    accepted: Mutex<String>,
    checks: AtomicU32,
}

impl StubPlatform {
    fn accepting(token: &str) -> Arc<Self> {
        let platform = Self::default();
        platform.accept(token);
        Arc::new(platform)
    }

    fn accept(&self, token: &str) {
        token.clone_into(&mut self.accepted.lock().unwrap());
    }

    fn checks(&self) -> u32 {
        self.checks.load(Ordering::Relaxed)
    }

    fn account(self: &Arc<Self>, token: &BotToken) -> BotAccount {
        let platform = Arc::clone(self);
        let check = move |token: SecretString| {
            platform.checks.fetch_add(1, Ordering::Relaxed);
            let is_accepted = *platform.accepted.lock().unwrap() == token.expose_secret();
            async move { is_accepted }.boxed()
        };
        let settings = AccountSettings { platform: "Stub", remedy: "get a new one", parse, check: Box::new(check) };
        BotAccount::new(token, settings).unwrap()
    }
}

fn parse(token: &SecretString) -> Option<SecretString> {
    let text = token.expose_secret().trim();
    text.starts_with("token").then(|| text.into())
}

fn closure(account: &BotAccount) -> ChannelClosure {
    account.state().closure().unwrap().clone()
}

fn call(account: &BotAccount) -> Result<SecretString, CallError<StubRefusal>> {
    account.token()
}

#[tokio::test(start_paused = true)]
async fn refused_token_closes_until_the_platform_accepts_it_again() {
    let platform = StubPlatform::accepting("");
    let account = platform.account(&"token one".into());
    let token = call(&account).unwrap();
    let refused = CallError::<StubRefusal>::AccountRefused { reason: "says no".to_owned() };
    assert_eq!(account.close_if_refused::<(), _>(&token, Err(refused.clone())), Err(refused.clone()));
    assert_eq!(call(&account).unwrap_err(), refused, "without a request");
    let ChannelClosure { platform: name, reason, remedy, .. } = closure(&account);
    assert_eq!((name, reason.as_str()), ("Stub", "says no"));
    assert_eq!(remedy, "get a new one, set it in the configuration and restart Satchel");

    // Under paused time.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!((20..60).contains(&platform.checks()), "{} checks in ten minutes", platform.checks());
    assert!(call(&account).is_err());
    platform.accept("token one");
    account.wait_until_open().await;
    assert_eq!(call(&account).unwrap().expose_secret(), "token one");
    let checks = platform.checks();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(platform.checks(), checks, "an open account isn't checked");
}

#[tokio::test(start_paused = true)]
async fn other_failures_and_refusals_of_an_earlier_token_close_nothing() {
    let account = StubPlatform::accepting("").account(&"token two".into());
    let token = call(&account).unwrap();
    let refused = Err(CallError::Refused(StubRefusal));
    assert_eq!(account.close_if_refused::<(), _>(&token, refused.clone()), refused);
    account.close(&"token one".into(), "says no");
    assert_eq!(account.state(), ChannelState::Open);
}

/// Catches: a file that is read once, and a half-written file that is taken for a token.
#[tokio::test]
async fn token_is_read_again_from_its_file() {
    static CONTENT: Mutex<&str> = Mutex::new("token one");
    fn read(_: &Path) -> Result<String, String> {
        Ok((*CONTENT.lock().unwrap()).to_owned())
    }
    let platform = StubPlatform::accepting("token two");
    let account = platform.account(&BotToken::from_file("token one".into(), "/run/secrets/token".into(), read));
    account.close(&call(&account).unwrap(), "says no");
    let expected = "get a new one and put it into /run/secrets/token, which is read again by itself";
    assert_eq!(closure(&account).remedy, expected);
    *CONTENT.lock().unwrap() = "half of";
    wait_until("it is checked", || platform.checks() > 0).await;
    assert!(call(&account).is_err());
    *CONTENT.lock().unwrap() = "token two\n";
    account.wait_until_open().await;
    assert_eq!(call(&account).unwrap().expose_secret(), "token two");
}

/// Catches: a platform that refuses some calls alone, by which owners are told of a closure every second.
#[tokio::test(start_paused = true)]
async fn refusals_in_short_succession_are_one_closure() {
    let platform = StubPlatform::accepting("token one");
    let account = platform.account(&"token one".into());
    let close = async || {
        account.close(&"token one".into(), "says no");
        let closure = closure(&account);
        account.wait_until_open().await;
        closure
    };
    let (first, second) = (close().await, close().await);
    assert_eq!(first, second);
    tokio::time::sleep(MIN_OPEN_TIME).await;
    let third = close().await;
    assert_eq!((first.number, third.number), (1, 2));
    assert_eq!(third.credentials, first.credentials);
}

/// Catches: processes that can't know that their closures are of one token, and a token that can be read out of its name.
#[tokio::test]
async fn credentials_have_one_name_in_each_process() {
    let platform = StubPlatform::accepting("");
    let [one, again, other] = ["token one", "token one", "token two"].map(|token| {
        let account = platform.account(&token.into());
        account.close(&token.into(), "says no");
        closure(&account).credentials
    });
    assert_eq!(one, again, "another process, or this one after a restart");
    assert_eq!(one, "fcae98a8ab484ace", "a program of another version finds what this one has stored");
    assert_ne!(one, other);
    assert!(!one.contains("one"), "{one}");
}

#[tokio::test(start_paused = true)]
async fn receiving_is_cancelled_when_the_channel_closes() {
    let account = StubPlatform::accepting("").account(&"token one".into());
    assert_eq!(account.cancel_when_closed(async { 7 }, || unreachable!("it is open")).await, 7);
    let (cancel, cancelled) = tokio::sync::oneshot::channel();
    let receiving = async { cancelled.await.is_ok() };
    let closing = async { account.close(&"token one".into(), "says no") };
    let cancelling = account.cancel_when_closed(receiving, || cancel.send(()).unwrap());
    let (was_cancelled, ()) = tokio::join!(cancelling, closing);
    assert!(was_cancelled);
}

#[test]
fn neither_token_nor_its_file_content_is_shown() {
    let token = BotToken::from("token canary");
    assert!(!format!("{token:?}").contains("canary"));
}
