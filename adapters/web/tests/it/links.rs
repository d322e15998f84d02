//! Links that open one file to whoever has them, for a while.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use satchel_domain::{Attachment, LinkRevocation, Timestamp};
use satchel_ports::{
    FileLinks, Inbox, LINK_TTL,
    ledger::{Archive, AttachmentKey, RenameOutcome, Storage},
};
use serde_json::{Value, json};

use crate::stage::{BEARER, Stage, conversation, header, problem, read, signed};

/// A page that others reach, and the token that it asks for.
async fn public() -> (Stage, &'static str) {
    let stage = Stage::with(|settings| settings.public_url = Some("https://satchel.example.org/".into()));
    (stage.await, BEARER)
}

async fn link(stage: &Stage, path: &str, hours: u32) -> reqwest::Response {
    stage.post(&format!("{path}/link")).json(&json!({ "hours": hours })).send().await.unwrap()
}

#[tokio::test]
async fn link_opens_file_without_login_until_revoked() {
    let stage = Stage::new().await;
    let (token, bearer) = ("authorization", BEARER);
    let made = stage.made("Отчёт.pdf", "%PDF-1.7\n").await;
    let say = stage.post("/api/conversations/a/messages").json(&json!({"key": "k", "text": "a file"}));
    assert_eq!(say.header(token, bearer).send().await.unwrap().status(), 202);
    stage.reply("Here", vec![made.clone()]).await;
    let path = format!("/api/conversations/a/files/{}", made.id);
    problem(stage.visit(&path).await, 401, "unauthorized").await;
    let make = stage.visitor.post(stage.url(&format!("{path}/link"))).json(&json!({ "hours": 24 }));
    problem(make.send().await.unwrap(), 401, "unauthorized").await;

    let make = async || {
        let answer = stage.post(&format!("{path}/link")).header(token, bearer).json(&json!({"hours": 24}));
        read(answer.send().await.unwrap()).await
    };
    let first = make().await;
    let life = first["expires_at"].as_i64().unwrap() - stage.clock.now().0;
    assert!((23 * 3_600_000..=24 * 3_600_000).contains(&life));
    let url = first["url"].as_str().unwrap().to_owned();
    assert!(url.starts_with(&format!("http://{}/links/", stage.address)), "{url}");
    let answer = stage.visitor.get(&url).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(header(&answer, "content-disposition").starts_with("attachment; "));
    assert_eq!(header(&answer, "referrer-policy"), "no-referrer");
    assert_eq!(header(&answer, "cache-control"), "no-store", "a revoked one is not shown from memory");
    assert_eq!(answer.text().await.unwrap(), "%PDF-1.7\n");
    problem(stage.client.get(format!("{url}x")).send().await.unwrap(), 404, "not_found").await;

    let revoke = stage.client.delete(stage.url(&format!("{path}/link"))).header(token, bearer);
    assert_eq!(revoke.send().await.unwrap().status(), 204);
    problem(stage.client.get(&url).send().await.unwrap(), 410, "link_expired").await;
    let second = make().await["url"].as_str().unwrap().to_owned();
    assert_eq!(stage.client.get(&second).send().await.unwrap().status(), 200, "a new one works");
    let unauthorized = stage.visitor.delete(stage.url(&format!("{path}/link"))).send().await.unwrap();
    problem(unauthorized, 401, "unauthorized").await;
}

#[tokio::test]
async fn links_need_existing_file_and_bounded_lifetime() {
    let stage = Stage::new().await;
    let (_, path) = stage.file("a.txt", "x").await;
    for hours in [0, 721, u32::MAX] {
        problem(link(&stage, &path, hours).await, 422, "invalid_request").await;
    }
    assert_eq!(link(&stage, &path, 720).await.status(), 200);
    problem(link(&stage, &path.replace("/a/", "/b/"), 24).await, 404, "not_found").await;
    let elsewhere = stage.client.delete(stage.url(&format!("{}/link", path.replace("/a/", "/b/"))));
    problem(elsewhere.send().await.unwrap(), 404, "not_found").await;
    let now = stage.clock.now().0;
    let id = path.rsplit('/').next().unwrap();
    let opens = |until: i64| {
        let opens = json!({"conversation": "web:a", "attachment": id, "behind": 0, "expires_at": until});
        format!("/links/{}", signed(&stage, "satchel link 1", &opens))
    };
    assert_eq!(stage.get(&opens(now + 60_000)).await.status(), 200);
    problem(stage.get(&opens(now - 1)).await, 410, "link_expired").await;
    let upload = stage.uploaded("b.txt", "y").await["upload"].as_str().unwrap().to_owned();
    problem(stage.get(&format!("/links/{upload}")).await, 404, "not_found").await;
}

#[tokio::test]
async fn a_link_names_the_address_that_others_know() {
    let (stage, bearer) = public().await;
    let made = stage.made("a.txt", "x").await;
    let say = stage.post("/api/conversations/a/messages").json(&json!({"key": "k", "text": "a file"}));
    say.header("authorization", bearer).send().await.unwrap();
    stage.reply("Here", vec![made.clone()]).await;
    let make = stage.post(&format!("/api/conversations/a/files/{}/link", made.id)).json(&json!({"hours": 1}));
    let link = read(make.header("authorization", bearer).send().await.unwrap()).await;
    assert!(link["url"].as_str().unwrap().starts_with("https://satchel.example.org/links/"), "{link}");
}

#[tokio::test]
async fn links_from_other_channels_open_and_expire_alike() {
    let (stage, bearer) = public().await;
    let links = stage.links.clone().expect("others reach the page");
    let made = stage.made("film.mov", "a film").await;
    let say = stage.post("/api/conversations/a/messages").json(&json!({"key": "k", "text": "a film"}));
    say.header("authorization", bearer).send().await.unwrap();
    stage.reply("Here", vec![made.clone()]).await;
    let open = async |url: &str| {
        let path = url.strip_prefix("https://satchel.example.org").expect("the address that others know");
        stage.visitor.get(stage.url(path)).header("host", "satchel.example.org").send().await.unwrap()
    };

    let before = stage.clock.now();
    let record = async || {
        let found = stage.ledger.attachment(&conversation(), AttachmentKey::Id(made.id)).await.unwrap();
        found.expect("it is stored")
    };
    let given = links.create_link(&record().await).unwrap();
    assert_eq!(links.redact_links(&format!("kept as #1: <{given}>!")), "kept as #1: <(a link)>!");
    assert!(!given.contains(|c: char| c.is_whitespace() || "<>".contains(c)), "{given}");
    let answer = open(&given).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.text().await.unwrap(), "a film");
    let said = given.rsplit('/').next().unwrap().split('.').next().unwrap();
    let said: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(said).unwrap()).unwrap();
    let made_at = Timestamp(said["expires_at"].as_i64().unwrap() - LINK_TTL.as_millis() as i64);
    assert!((before..=stage.clock.now()).contains(&made_at), "it expires");
    problem(open(&format!("{given}x")).await, 404, "not_found").await;

    // All end at once, on the running page, whoever made them and whoever ends them.
    let path = format!("/api/conversations/a/files/{}/link", made.id);
    let by_api = stage.post(&path).json(&json!({"hours": 1})).header("authorization", bearer);
    let by_api = read(by_api.send().await.unwrap()).await["url"].as_str().unwrap().to_owned();
    stage.ledger.revoke_links(made.id).await.unwrap();
    problem(open(&given).await, 410, "link_expired").await;
    problem(open(&by_api).await, 410, "link_expired").await;
    let planned = LinkRevocation { count: 1, planned_count: 0 };
    let planned = Attachment { link_revocation: Some(planned), ..record().await };
    assert_eq!(links.create_link(&planned), None, "a reply from before brings none back");
    let second = links.create_link(&record().await).unwrap();
    assert_eq!(open(&second).await.status(), 200, "a new one works");
    let revoke = stage.client.delete(stage.url(&path)).header("authorization", bearer);
    assert_eq!(revoke.send().await.unwrap().status(), 204);
    problem(open(&second).await, 410, "link_expired").await;
}

/// As a Telegram group gets another name when it becomes a supergroup.
#[tokio::test]
async fn link_opens_in_renamed_conversation_until_revoked() {
    let stage = Stage::new().await;
    let (file, path) = stage.file("a.txt", "x").await;
    let given = read(link(&stage, &path, 24).await).await;
    let open = async || stage.visitor.get(given["url"].as_str().unwrap()).send().await.unwrap();
    let renamed = stage.ledger.rename_conversation(&conversation(), &"web:renamed".parse().unwrap()).await;
    assert_eq!(renamed.unwrap(), RenameOutcome::Renamed);
    let opened = open().await;
    assert_eq!(opened.status(), 200);
    assert_eq!(opened.text().await.unwrap(), "x");
    stage.ledger.revoke_links(file.id).await.unwrap();
    problem(open().await, 410, "link_expired").await;
}

#[tokio::test]
async fn locally_reachable_page_offers_no_links() {
    let local = [
        "http://localhost:8787",
        "http://LOCALHOST.",
        "http://satchel.localhost:8787",
        "http://127.0.0.1",
        "http://127.0.0.1.",
        "https://[::1]",
        "https://[::ffff:127.0.0.1]",
        "http://0.0.0.0:8787",
        "http://[::]:8787",
    ];
    for local in local.map(Some).into_iter().chain([None]) {
        let stage = Stage::with(|settings| settings.public_url = local.map(Into::into)).await;
        assert!(stage.links.is_none(), "{local:?}");
    }
}
