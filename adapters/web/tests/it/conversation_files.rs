//! The list of a conversation's files, and forgetting one of them.

use std::sync::Arc;

use satchel_domain::Visibility;
use satchel_ports::{MockImageScaler, ScaledImage};
use serde_json::{Value, json};

use crate::{
    api::PNG,
    stage::{Events, Stage, problem, sent},
};

const FILES: &str = "/api/conversations/a/files";

/// The numbers of the files that a list has, and whether there are more.
async fn numbers(stage: &Stage, query: &str) -> (Vec<u64>, bool) {
    let list = stage.json(&format!("{FILES}{query}")).await;
    let numbers = list["files"].as_array().unwrap().iter().map(|file| file["number"].as_u64().unwrap());
    (numbers.collect(), list["more"].as_bool().unwrap())
}

/// A stage with #1 `a.png` of a person, and #2 `b.pdf`, #3 `c.ogg` and #4 `d.png` of the assistant; #5 is nobody's to see.
async fn stage_with_files() -> Stage {
    let stage = Stage::new().await;
    let upload = stage.uploaded("a.png", PNG).await["upload"].as_str().unwrap().to_owned();
    stage.say_with("k", "a picture", &[upload]).await;
    let mut made = Vec::new();
    for (name, content) in [("b.pdf", b"%PDF-1.7\n".as_slice()), ("c.ogg", b"OggS\0\x02"), ("d.png", PNG)] {
        made.push(stage.made(name, content).await);
    }
    made[1].mime = "audio/ogg".into();
    let mut hidden = stage.made("e.png", PNG).await;
    hidden.visibility = Visibility::Internal;
    made.push(hidden);
    stage.reply("Here they are.", made).await;
    stage
}

#[tokio::test]
async fn files_are_listed_newest_first() {
    let stage = stage_with_files().await;
    let list = stage.json(FILES).await;
    assert_eq!(numbers(&stage, "").await, (vec![4, 3, 2, 1], false));
    let first = &list["files"][3];
    assert_eq!(
        (&first["filename"], &first["sender"], &first["mime"]),
        (&json!("a.png"), &json!("person"), &json!("image/png"))
    );
    assert_eq!((&first["bytes"], &first["forgotten"]), (&json!(PNG.len()), &json!(false)));
    assert!(first["at"].as_i64() > Some(1_600_000_000_000), "{first}");
    assert_eq!(stage.get(first["url"].as_str().unwrap()).await.status(), 200);
    assert_eq!(list["files"][0]["sender"], "assistant");
    assert_eq!(stage.json("/api/conversations/never/files").await, json!({"files": [], "more": false}));
}

#[tokio::test]
async fn list_is_filtered_and_paged() {
    let stage = stage_with_files().await;
    let later = stage.clock.now().0 + 60_000;
    for (query, expected, more) in [
        ("?kind=image", vec![4, 1], false),
        ("?kind=audio", vec![3], false),
        ("?kind=video", vec![], false),
        ("?kind=other", vec![2], false),
        ("?sender=person", vec![1], false),
        ("?sender=assistant", vec![4, 3, 2], false),
        ("?kind=image&sender=assistant", vec![4], false),
        ("?limit=2", vec![4, 3], true),
        ("?limit=2&before=3", vec![2, 1], false),
        ("?kind=image&limit=1", vec![4], true),
        ("?kind=image&limit=1&before=4", vec![1], false),
        ("?limit=0", vec![4], true),
        ("?since=1", vec![4, 3, 2, 1], false),
        ("?until=1", vec![], false),
        (&format!("?since={later}"), vec![], false),
        (&format!("?until={later}"), vec![4, 3, 2, 1], false),
    ] {
        assert_eq!(numbers(&stage, query).await, (expected, more), "{query}");
    }
    for wrong in ["?kind=pictures", "?sender=owner", "?since=yesterday", "?before=-1", "?before=%27%20OR%201=1"] {
        problem(stage.get(&format!("{FILES}{wrong}")).await, 422, "invalid_request").await;
    }
}

#[tokio::test]
async fn files_stay_in_their_conversation() {
    let stage = stage_with_files().await;
    let file = stage.json(FILES).await["files"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(stage.json("/api/conversations/b/files").await["files"], json!([]));
    for elsewhere in ["/api/conversations/telegram:5/files", "/api/conversations/a%2F..%2Fb/files"] {
        problem(stage.get(elsewhere).await, 404, "not_found").await;
    }
    problem(stage.visit(FILES).await, 401, "unauthorized").await;
    let forget = |path: String| stage.client.delete(stage.url(&path));
    problem(forget(format!("/api/conversations/b/files/{file}")).send().await.unwrap(), 404, "not_found").await;
    problem(forget(format!("{FILES}/17")).send().await.unwrap(), 404, "not_found").await;
    let cross_site = forget(format!("{FILES}/{file}")).header("sec-fetch-site", "cross-site");
    problem(cross_site.send().await.unwrap(), 403, "cross_origin").await;
    let stranger = stage.visitor.delete(stage.url(&format!("{FILES}/{file}")));
    problem(stranger.send().await.unwrap(), 401, "unauthorized").await;
    assert_eq!(numbers(&stage, "").await.0, [4, 3, 2, 1], "nothing of it was done");
}

#[tokio::test]
async fn forgotten_file_leaves_list_search_and_preview() {
    let mut images = MockImageScaler::new();
    images
        .expect_scale()
        .returning(|_, _| Ok(ScaledImage { mime: "image/png".into(), width: 960, height: 1, content: "small".into() }));
    let stage = Stage::with(|settings| settings.images = Some(Arc::new(images))).await;
    let (_, path) = stage.file("passport.tiff", b"II*\0\x08\0\0\0\0\0\0\0\0\0".as_slice()).await;
    assert_eq!(stage.get(&format!("{path}/preview")).await.status(), 200);
    let hits = async || stage.json("/api/search?q=passport").await["hits"].as_array().unwrap().len();
    assert_eq!((numbers(&stage, "").await.0, hits().await), (vec![1], 1));
    let mut open = Events::of(&stage).await;
    open.expect("snapshot").await;
    let forget = async || stage.client.delete(stage.url(&path)).send().await.unwrap().status();
    assert_eq!(forget().await, 204);
    assert_eq!(forget().await, 204, "a repeat changes nothing");
    assert_eq!(open.next().await, None, "whoever looks at it connects again");
    assert_eq!((numbers(&stage, "").await.0, hits().await), (Vec::<u64>::new(), 0));
    for gone in [path.clone(), format!("{path}/preview")] {
        problem(stage.get(&gone).await, 404, "not_found").await;
    }
    let turns = stage.json("/api/conversations/a/turns").await;
    let file = &turns["turns"][0]["parts"][1]["files"][0];
    assert_eq!((&file["forgotten"], &file["number"]), (&json!(true), &json!(1)));
    assert!(!turns.to_string().contains("passport"), "{turns}");
}

#[tokio::test]
async fn needed_file_is_not_forgotten() {
    let stage = Stage::new().await;
    let made = stage.made("a.txt", "a text").await;
    let path = format!("{FILES}/{}", made.id);
    stage.say("k", "a file, please").await;
    let (lease, parts) = stage.answer("Here it is.", vec![made]).await;
    let forget = async || stage.client.delete(stage.url(&path)).send().await.unwrap();
    let busy: Value = problem(forget().await, 409, "busy").await;
    assert!(busy["detail"].as_str().unwrap().contains("still being sent"), "{busy}");
    for part in &parts {
        stage.settle(&lease, part, sent(part)).await;
    }
    assert_eq!(forget().await.status(), 204);
}
