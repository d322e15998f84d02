//! Signs the URLs that elements of a page load by themselves: images, players, downloads.
//!
//! Such a request can't carry the proof of a login, because it has no headers of its own. The signature of its path takes
//! that place: for one file with its preview, or one archive, to be read, and only together with a login's cookie. It is
//! always the same, so that a browser's cache knows the file again.

use axum::http::{Method, Uri};

use crate::signing::{Purpose, SigningKey};

/// The parameter of a URL with the signature.
const PARAMETER: &str = "signature=";

/// What follows the path of a file in that of its preview.
pub(crate) const PREVIEW_SUFFIX: &str = "/preview";

/// Signs URLs, and checks what was signed.
#[derive(Debug, Clone)]
pub(crate) struct UrlSigner(SigningKey);

impl UrlSigner {
    pub(crate) fn new(key: SigningKey) -> Self {
        Self(key)
    }

    /// Returns the signature of a path, which is also valid for the preview below it.
    pub(crate) fn sign(&self, path: &str) -> String {
        self.0.create_signature(Purpose::Url, path)
    }

    /// Returns a path with its signature.
    pub(crate) fn sign_url(&self, path: &str) -> String {
        format!("{path}?{PARAMETER}{}", self.sign(path))
    }

    /// Whether a request only reads, and its URL has the signature of its path.
    pub(crate) fn is_signed(&self, method: &Method, uri: &Uri) -> bool {
        let path = uri.path();
        let path = path.strip_suffix(PREVIEW_SUFFIX).unwrap_or(path);
        let mut parameters = uri.query().unwrap_or_default().split('&');
        let signature = parameters.find_map(|parameter| parameter.strip_prefix(PARAMETER));
        matches!(*method, Method::GET | Method::HEAD)
            && signature.is_some_and(|signature| self.0.is_signature(Purpose::Url, path, signature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer() -> UrlSigner {
        let directory = tempfile::tempdir().unwrap();
        UrlSigner::new(SigningKey::load_or_create(&directory.path().join("key")).unwrap())
    }

    #[test]
    fn signature_is_valid_for_reading_its_path_alone() {
        let signer = signer();
        let signature = signer.sign("/files/1");
        let is_signed = |method: Method, url: &str| signer.is_signed(&method, &url.parse().unwrap());
        assert_eq!(signer.sign_url("/files/1"), format!("/files/1?signature={signature}"));
        for url in [
            format!("/files/1?signature={signature}"),
            format!("/files/1?signature={signature}&download=1"),
            format!("/files/1?download=1&signature={signature}"),
            format!("/files/1/preview?signature={signature}"),
            format!("http://127.0.0.1:8787/files/1?signature={signature}"),
        ] {
            assert!(is_signed(Method::GET, &url) && is_signed(Method::HEAD, &url), "{url}");
            for method in [Method::DELETE, Method::POST, Method::PATCH, Method::PUT] {
                assert!(!is_signed(method, &url), "{url}");
            }
        }
        for url in [
            "/files/1".to_owned(),
            "/files/1?signature=".to_owned(),
            format!("/files/2?signature={signature}"),
            format!("/files/1/link?signature={signature}"),
            format!("/files/1/?signature={signature}"),
            format!("/files/%31?signature={signature}"),
            format!("/files?signature={signature}"),
            format!("/files/1?signature={signature}x"),
            format!("/files/1?signature=x&signature={signature}"),
            format!("/files/1?other-signature={signature}"),
            format!("/files/1?signature={}", self::signer().sign("/files/1")),
        ] {
            assert!(!is_signed(Method::GET, &url), "{url}");
        }
    }
}
