//! Previews of images: who gets one, what it carries, and what the page has when there is none.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::future::join_all;
use satchel_ports::{ImageError, ImageRequest, ImageScaler, MockImageScaler, ScaledImage};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    api::PNG,
    stage::{Stage, header, problem},
};

/// A file that is detected as TIFF.
const TIFF: &[u8] = b"II*\0\x08\0\0\0\0\0\0\0\0\0";

fn copy(mime: &str) -> ScaledImage {
    ScaledImage { mime: mime.to_owned(), width: 960, height: 1, content: "small and upright".into() }
}

/// A scaler that always has this result.
fn scaler(result: Result<ScaledImage, ImageError>) -> Arc<dyn ImageScaler> {
    let mut scaler = MockImageScaler::new();
    scaler.expect_scale().returning(move |_, _| result.clone());
    Arc::new(scaler)
}

async fn stage(images: Arc<dyn ImageScaler>) -> Stage {
    Stage::with(|settings| settings.images = Some(images)).await
}

#[tokio::test]
async fn preview_is_a_scaled_copy_that_a_browser_keeps() {
    let mut images = MockImageScaler::new();
    images.expect_scale().times(1).returning(|request, _| {
        assert_eq!((request.max_side, request.max_bytes), (960, 256 << 10));
        assert_eq!((request.mime.as_str(), request.bytes), ("image/tiff", TIFF.len() as u64));
        Ok(copy("image/jpeg"))
    });
    let stage = stage(Arc::new(images)).await;
    let (made, path) = stage.file("scan.tiff", TIFF).await;
    let turns = stage.json("/api/conversations/a/turns").await;
    let file = &turns["turns"][0]["parts"][1]["files"][0];
    assert_eq!((&file["inline"], &file["preview"]), (&json!("none"), &json!(format!("{path}/preview"))));
    let answer = stage.get(&format!("{path}/preview")).await;
    assert_eq!(answer.status(), 200);
    let tag = format!("\"{}-preview\"", made.sha256);
    for (name, value) in [
        ("content-type", "image/jpeg"),
        ("content-length", "17"),
        ("etag", &tag),
        ("cache-control", "private, no-cache"),
        ("x-content-type-options", "nosniff"),
        ("cross-origin-resource-policy", "same-origin"),
        ("content-security-policy", "sandbox; default-src 'none'; frame-ancestors 'none'"),
        ("content-disposition", "inline; filename=\"scan.tiff.jpg\"; filename*=UTF-8''scan.tiff.jpg"),
    ] {
        assert_eq!(header(&answer, name), value, "{name}");
    }
    assert_eq!(answer.text().await.unwrap(), "small and upright");
    let again = stage.client.get(stage.url(&format!("{path}/preview"))).header("if-none-match", &tag);
    let again = again.send().await.unwrap();
    assert_eq!((again.status().as_u16(), header(&again, "etag")), (304, tag));
    let remembered = stage.get(&format!("{path}/preview")).await;
    assert_eq!(remembered.text().await.unwrap(), "small and upright");
}

#[tokio::test]
async fn preview_has_the_permissions_of_its_file() {
    let stage = stage(scaler(Ok(copy("image/png")))).await;
    let (_, path) = stage.file("scan.tiff", TIFF).await;
    let preview = format!("{path}/preview");
    problem(stage.visit(&preview).await, 401, "unauthorized").await;
    let cross_site = stage.client.get(stage.url(&preview)).header("sec-fetch-site", "cross-site");
    problem(cross_site.send().await.unwrap(), 403, "cross_origin").await;
    for wrong in [preview.replace("/a/", "/b/"), "/api/conversations/a/files/17/preview".to_owned()] {
        problem(stage.get(&wrong).await, 404, "not_found").await;
    }
    assert_eq!(stage.get(&preview).await.status(), 200);
}

#[tokio::test]
async fn hostile_name_stays_in_its_header() {
    let stage = stage(scaler(Ok(copy("image/png")))).await;
    let (_, path) = stage.file("a\"\r\nSet-Cookie: x=y;\r\n\r\n<script>.tiff", TIFF).await;
    let answer = stage.get(&format!("{path}/preview")).await;
    assert_eq!(answer.headers().get("set-cookie"), None);
    let expected = "inline; filename=\"a_Set-Cookie_ x_y__script_.tiff.png\"; \
                    filename*=UTF-8''a%22Set-Cookie_%20x%3Dy%3B%3Cscript%3E.tiff.png";
    assert_eq!(header(&answer, "content-disposition"), expected);
}

#[tokio::test]
async fn images_that_need_no_preview_have_none() {
    let stage = stage(Arc::new(MockImageScaler::new())).await;
    for (name, content) in
        [("small.png", PNG), ("a.txt", b"words"), ("a.svg", b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>")]
    {
        let (_, path) = stage.file(name, content).await;
        problem(stage.get(&format!("{path}/preview")).await, 404, "no_preview").await;
        assert_eq!(stage.get(&path).await.status(), 200, "{name}");
    }
    let turns = stage.json("/api/conversations/a/turns").await;
    assert!(!turns.to_string().contains("/preview"), "{turns}");
}

#[tokio::test]
async fn file_itself_is_served_where_no_preview_can_be_made() {
    let reason = || "for a test".to_owned();
    for (images, status, code) in [
        (None, 404, "no_preview"),
        (Some(scaler(Err(ImageError::Unsupported { reason: reason() }))), 404, "no_preview"),
        (Some(scaler(Err(ImageError::Unreadable { reason: reason() }))), 404, "no_preview"),
        (Some(scaler(Ok(copy("text/html")))), 404, "no_preview"),
        (Some(scaler(Err(ImageError::Unavailable { reason: reason() }))), 503, "unavailable"),
    ] {
        let stage = Stage::with(|settings| settings.images = images).await;
        let (_, path) = stage.file("scan.tiff", TIFF).await;
        let answer = stage.get(&format!("{path}/preview")).await;
        assert_eq!(header(&answer, "cache-control"), "no-store", "a failure may pass");
        assert_eq!(answer.headers().contains_key("retry-after"), status == 503);
        problem(answer, status, code).await;
        assert_eq!(stage.get(&path).await.bytes().await.unwrap(), TIFF);
    }
}

/// Counts how many images are scaled at a time.
#[derive(Default)]
struct CountingScaler {
    running: AtomicUsize,
    most: AtomicUsize,
    total: AtomicUsize,
}

#[async_trait]
impl ImageScaler for CountingScaler {
    async fn scale(&self, _: &ImageRequest, _: &CancellationToken) -> Result<ScaledImage, ImageError> {
        self.total.fetch_add(1, Ordering::Relaxed);
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(running, Ordering::Relaxed);
        // Long enough for the other requests to meet it.
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.running.fetch_sub(1, Ordering::Relaxed);
        Ok(copy("image/png"))
    }
}

#[tokio::test]
async fn concurrent_requests_use_one_worker() {
    let images = Arc::new(CountingScaler::default());
    let stage = stage(Arc::clone(&images) as Arc<dyn ImageScaler>).await;
    let (_, first) = stage.file("first.tiff", TIFF).await;
    let (_, second) = stage.file("second.tiff", [TIFF, b"and more"].concat()).await;
    let paths = [&first, &second].into_iter().cycle().take(20).map(|path| format!("{path}/preview"));
    let answers = join_all(paths.map(async |path| stage.get(&path).await.status().as_u16())).await;
    assert_eq!(answers, [200; 20]);
    assert_eq!(images.total.load(Ordering::Relaxed), 2, "each is made once");
    assert_eq!(images.most.load(Ordering::Relaxed), 1, "other files find a free worker");
}
