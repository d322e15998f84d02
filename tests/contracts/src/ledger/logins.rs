//! Promises about the logins of browsers to the page: they end in every process at once, for good, and are few.

use std::time::Duration;

use satchel_domain::LoginId;
use satchel_ports::{
    Clock,
    ledger::{Ledger, NewLogin, PageLogin},
};
use uuid::Uuid;

use super::LedgerFixture;

const MAX_LOGINS: u32 = 3;

const LIFETIME: Duration = Duration::from_secs(60);

const MOMENT: Duration = Duration::from_millis(1);

async fn create(fixture: &impl LedgerFixture, ledger: &Ledger, issuer: &str, client: &str) -> PageLogin {
    let expires_at = fixture.clock().now().saturating_add(LIFETIME);
    let login = NewLogin { issuer: issuer.to_owned(), client: client.to_owned(), expires_at };
    ledger.logins.create_login(&login, MAX_LOGINS).await.unwrap()
}

async fn find(ledger: &Ledger, login: LoginId) -> Option<PageLogin> {
    ledger.logins.find_login(login).await.unwrap()
}

/// The clients of the logins, in the order in which they are listed.
async fn clients(ledger: &Ledger) -> Vec<String> {
    let logins = ledger.logins.list_logins().await.unwrap();
    logins.into_iter().map(|login| login.client).collect()
}

/// Catches: a login that one process ends and another accepts, one that a restart forgets or revives, and a field that is
/// lost.
pub async fn ended_login_has_ended_in_every_process(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let login = create(fixture, &one, "a token", "Firefox on Linux").await;
    let now = fixture.clock().now();
    let expected = PageLogin {
        id: login.id,
        issuer: "a token".to_owned(),
        client: "Firefox on Linux".to_owned(),
        created_at: now,
        used_at: now,
        expires_at: now.saturating_add(LIFETIME),
    };
    assert_eq!(login, expected);
    let other = create(fixture, &two, "a token", "other").await;
    assert_ne!(login.id, other.id);
    for ledger in [&one, &two] {
        assert_eq!(
            (find(ledger, login.id).await, find(ledger, other.id).await),
            (Some(login.clone()), Some(other.clone()))
        );
        assert_eq!(find(ledger, LoginId(Uuid::nil())).await, None);
    }
    assert!(two.logins.end_login(other.id).await.unwrap());
    for ledger in [&one, &two] {
        assert_eq!(find(ledger, other.id).await, None);
        assert!(!ledger.logins.touch_login(other.id).await.unwrap(), "nothing revives it");
        assert!(!ledger.logins.end_login(other.id).await.unwrap());
        assert_eq!(clients(ledger).await, ["Firefox on Linux"]);
    }
    drop((one, two));
    let later = fixture.open().await;
    assert_eq!((find(&later, login.id).await, find(&later, other.id).await), (Some(login), None));
}

/// Catches: a login that lives on because it is used, and a clock that is behind and takes a use back.
pub async fn login_expires_although_it_is_used(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let login = create(fixture, &ledger, "a token", "used").await;
    fixture.clock().advance(LIFETIME - MOMENT);
    let used_at = fixture.clock().now();
    assert!(ledger.logins.touch_login(login.id).await.unwrap());
    fixture.clock().set(login.created_at);
    assert!(ledger.logins.touch_login(login.id).await.unwrap());
    assert_eq!(find(&ledger, login.id).await, Some(PageLogin { used_at, ..login.clone() }));

    fixture.clock().set(login.expires_at);
    assert_eq!(find(&ledger, login.id).await, None);
    assert!(!ledger.logins.touch_login(login.id).await.unwrap());
    assert_eq!(clients(&ledger).await, [] as [&str; 0]);
    assert!(!ledger.logins.end_login(login.id).await.unwrap(), "it has ended before");
    assert_eq!(ledger.logins.end_logins(None).await.unwrap(), 0);
}

/// Catches: rows without end, and a new login that ends one in use instead of one that nobody uses.
pub async fn new_login_replaces_the_least_recently_used(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let mut logins = Vec::new();
    for client in ["a", "b", "c"] {
        logins.push(create(fixture, &ledger, "a token", client).await);
        fixture.clock().advance(MOMENT);
    }
    assert_eq!(clients(&ledger).await, ["c", "b", "a"], "the most recently used first");
    assert!(ledger.logins.touch_login(logins[0].id).await.unwrap());
    fixture.clock().advance(MOMENT);
    create(fixture, &ledger, "a token", "d").await;
    assert_eq!(clients(&ledger).await, ["d", "a", "c"]);
    // As on a machine whose clock is behind.
    fixture.clock().set(logins[0].created_at);
    create(fixture, &ledger, "a token", "e").await;
    assert_eq!(clients(&ledger).await, ["d", "a", "e"], "the new one stays");
}

/// Catches: logins that outlive their token, and logins of another token that end with it.
pub async fn logins_of_one_issuer_end_together(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    for (issuer, client) in [("old", "a"), ("old", "b"), ("new", "c")] {
        create(fixture, &ledger, issuer, client).await;
    }
    let end = async |issuer: Option<&str>| ledger.logins.end_logins(issuer.map(str::to_owned)).await.unwrap();
    assert_eq!((end(Some("other")).await, end(Some("old")).await, end(Some("old")).await), (0, 2, 0));
    assert_eq!(clients(&ledger).await, ["c"]);
    assert_eq!(end(None).await, 1);
    assert_eq!(clients(&ledger).await, [] as [&str; 0]);
}
