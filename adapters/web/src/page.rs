//! Serves the page, whose files are embedded in the binary.

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};

use crate::{
    problem::Problem,
    routes::{ApiPath, range},
};

/// The files under `page/`, by their names there.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// `GET /`
pub(crate) async fn index(headers: HeaderMap) -> Response {
    serve_page_file("index.html", &headers)
}

/// `GET /settings`
pub(crate) async fn settings(headers: HeaderMap) -> Response {
    serve_page_file("settings.html", &headers)
}

/// `GET /page/…`
pub(crate) async fn file(ApiPath(name): ApiPath<String>, headers: HeaderMap) -> Response {
    serve_page_file(&name, &headers)
}

fn serve_page_file(name: &str, headers: &HeaderMap) -> Response {
    let Some((_, bytes)) = FILES.iter().find(|(filename, _)| *filename == name) else {
        return Problem::not_found("page").into_response();
    };
    let digest: String = Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{digest}\"");
    let cache_headers = [
        (header::ETAG, HeaderValue::try_from(&tag).expect("hexadecimal digits are plain")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    if range::is_not_modified(headers, &tag) {
        return (StatusCode::NOT_MODIFIED, cache_headers).into_response();
    }
    let content_type = [(header::CONTENT_TYPE, HeaderValue::from_static(content_type(name)))];
    (cache_headers, content_type, *bytes).into_response()
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("json") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        Some("txt" | "md") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    /// Where a file of somebody else's was taken from, unchanged.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct VendoredFile {
        package: String,
        archive: String,
        archive_integrity: String,
        path: String,
        licence: String,
        sha256: String,
    }

    #[test]
    fn vendored_files_are_what_their_sources_published() {
        let vendored = FILES.iter().filter_map(|(name, bytes)| Some((name.strip_prefix("vendor/")?, *bytes)));
        let mut files: BTreeMap<&str, &[u8]> = vendored.collect();
        let record = files.remove("sources.json").expect("the sources are recorded");
        let sources: BTreeMap<String, VendoredFile> = serde_json::from_slice(record).unwrap();
        assert!(files.keys().copied().eq(sources.keys().map(String::as_str)), "{:?}", files.keys());
        for (name, source) in &sources {
            let digest: String =
                Sha256::digest(files[name.as_str()]).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digest, source.sha256, "{name} is not what {} has as {}", source.package, source.path);
            assert!(
                source.archive.starts_with("https://") && source.archive_integrity.starts_with("sha512-"),
                "{name}"
            );
            assert_eq!(
                source.licence, "BSD-3-Clause",
                "{name}: is that licence allowed, and its text beside the file?"
            );
        }
    }

    #[test]
    fn page_is_embedded_and_its_files_are_typed() {
        assert!(FILES.iter().any(|(name, bytes)| *name == "index.html" && !bytes.is_empty()));
        for (name, _) in FILES {
            assert_ne!(content_type(name), "application/octet-stream", "{name}");
        }
    }
}
