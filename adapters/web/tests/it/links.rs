//! Links that open one file to whoever has them, for a while.

use serde_json::json;

use crate::stage::{Stage, header, problem, read, signed};

async fn link(stage: &Stage, path: &str, hours: u32) -> reqwest::Response {
    stage.post(&format!("{path}/link")).json(&json!({ "hours": hours })).send().await.unwrap()
}

#[tokio::test]
async fn a_link_opens_its_file_without_login_until_it_is_revoked() {
    let stage = Stage::with(|settings| settings.token = Some("correct horse battery".into())).await;
    let (token, bearer) = ("authorization", "Bearer correct horse battery");
    let made = stage.made("Отчёт.pdf", "%PDF-1.7\n").await;
    let say = stage.post("/api/conversations/a/messages").json(&json!({"key": "k", "text": "a file"}));
    assert_eq!(say.header(token, bearer).send().await.unwrap().status(), 202);
    stage.reply("Here", vec![made.clone()]).await;
    let path = format!("/api/conversations/a/files/{}", made.id);
    problem(stage.get(&path).await, 401, "unauthorized").await;
    problem(link(&stage, &path, 24).await, 401, "unauthorized").await;

    let make = async || {
        let answer = stage.post(&format!("{path}/link")).header(token, bearer).json(&json!({"hours": 24}));
        read(answer.send().await.unwrap()).await
    };
    let first = make().await;
    let life = first["expires_at"].as_i64().unwrap() - stage.ledger.now().0;
    assert!((23 * 3_600_000..=24 * 3_600_000).contains(&life));
    let url = first["url"].as_str().unwrap().to_owned();
    assert!(url.starts_with(&format!("http://{}/links/", stage.address)), "{url}");
    let answer = stage.client.get(&url).send().await.unwrap();
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
    let unauthorized = stage.client.delete(stage.url(&format!("{path}/link"))).send().await.unwrap();
    problem(unauthorized, 401, "unauthorized").await;
}

#[tokio::test]
async fn links_are_made_for_known_files_and_bounded_times() {
    let stage = Stage::new().await;
    let (_, path) = stage.file("a.txt", "x").await;
    for hours in [0, 721, u32::MAX] {
        problem(link(&stage, &path, hours).await, 422, "invalid_request").await;
    }
    assert_eq!(link(&stage, &path, 720).await.status(), 200);
    problem(link(&stage, &path.replace("/a/", "/b/"), 24).await, 404, "not_found").await;
    let elsewhere = stage.client.delete(stage.url(&format!("{}/link", path.replace("/a/", "/b/"))));
    problem(elsewhere.send().await.unwrap(), 404, "not_found").await;
    let now = stage.ledger.now().0;
    let id = path.rsplit('/').next().unwrap();
    let opens = |until: i64| {
        let opens = json!({"conversation": "web:a", "attachment": id, "made_at": now - 10_000, "expires_at": until});
        format!("/links/{}", signed(&stage, "satchel link 1", &opens))
    };
    assert_eq!(stage.get(&opens(now + 60_000)).await.status(), 200);
    problem(stage.get(&opens(now - 1)).await, 410, "link_expired").await;
    let upload = stage.uploaded("b.txt", "y").await["upload"].as_str().unwrap().to_owned();
    problem(stage.get(&format!("/links/{upload}")).await, 404, "not_found").await;
}

#[tokio::test]
async fn a_link_names_the_address_that_others_know() {
    let stage = Stage::with(|settings| {
        settings.token = Some("correct horse battery".into());
        settings.public_url = Some("https://satchel.example.org/".into());
    })
    .await;
    let made = stage.made("a.txt", "x").await;
    let say = stage.post("/api/conversations/a/messages").json(&json!({"key": "k", "text": "a file"}));
    say.header("authorization", "Bearer correct horse battery").send().await.unwrap();
    stage.reply("Here", vec![made.clone()]).await;
    let make = stage.post(&format!("/api/conversations/a/files/{}/link", made.id)).json(&json!({"hours": 1}));
    let link = read(make.header("authorization", "Bearer correct horse battery").send().await.unwrap()).await;
    assert!(link["url"].as_str().unwrap().starts_with("https://satchel.example.org/links/"), "{link}");
}
