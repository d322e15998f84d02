//! A request to the REST API, and the route by which Discord limits its rate.

use std::fmt;

use reqwest::Method;
use serde::Serialize;

/// The resources whose ids each have their own rate limit (Rate Limits, "top-level resources").
const MAJOR_PARAMETERS: [&str; 4] = ["channels", "guilds", "webhooks", "interactions"];

/// A request, ready to be sent.
#[derive(Clone)]
pub(crate) struct ApiRequest {
    method: Method,
    path: String,
    body: Option<Vec<u8>>,
    is_low_priority: bool,
}

/// The route by which Discord limits a request's rate, as far as the path shows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RateLimitRoute {
    /// The method and the path without ids.
    pub(crate) template: String,
    /// The major parameters, which have their own rate limits.
    pub(crate) major: String,
}

impl ApiRequest {
    /// Creates a `GET` of a path, which starts with a slash and may have a query.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path.into(), None)
    }

    pub(crate) fn post(path: impl Into<String>, body: &impl Serialize) -> Self {
        Self::new(Method::POST, path.into(), Some(to_json(body)))
    }

    pub(crate) fn patch(path: impl Into<String>, body: &impl Serialize) -> Self {
        Self::new(Method::PATCH, path.into(), Some(to_json(body)))
    }

    pub(crate) fn put(path: impl Into<String>, body: &impl Serialize) -> Self {
        Self::new(Method::PUT, path.into(), Some(to_json(body)))
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path.into(), None)
    }

    /// Gives the request a low priority, so that others go first for a while.
    pub(crate) fn low_priority(self) -> Self {
        Self { is_low_priority: true, ..self }
    }

    fn new(method: Method, path: String, body: Option<Vec<u8>>) -> Self {
        Self { method, path, body, is_low_priority: false }
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn body(&self) -> Option<Vec<u8>> {
        self.body.clone()
    }

    pub(super) fn is_low_priority(&self) -> bool {
        self.is_low_priority
    }

    /// Whether the bot's global limit doesn't apply (Rate Limits, "interaction endpoints are not bound to the bot's
    /// Global Rate Limit").
    pub(super) fn is_interaction(&self) -> bool {
        self.path.starts_with("/interactions/") || self.path.starts_with("/webhooks/")
    }

    /// Returns the route by which Discord limits its rate.
    pub(crate) fn route(&self) -> RateLimitRoute {
        let path = self.path.split('?').next().unwrap_or_default();
        let (mut template, mut major, mut previous) = (self.method.to_string(), String::new(), "");
        template.push(' ');
        for (index, segment) in path.split('/').filter(|segment| !segment.is_empty()).enumerate() {
            // The token of a webhook or an interaction follows its id and belongs to it.
            let is_token =
                index == 2 && ["webhooks", "interactions"].iter().any(|prefix| path[1..].starts_with(prefix));
            let is_id = is_token || (!segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit()));
            if is_token || (is_id && index == 1 && MAJOR_PARAMETERS.contains(&previous)) {
                major.push('/');
                major.push_str(segment);
            }
            template.push('/');
            template.push_str(if is_id { "{}" } else { segment });
            previous = segment;
        }
        RateLimitRoute { template, major }
    }
}

/// Omits the path, which may contain an interaction's token, and the body, which people wrote.
impl fmt::Debug for ApiRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ApiRequest").field(&self.route().template).finish()
    }
}

fn to_json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("texts, numbers and lists are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_template_and_major_parameter() {
        for (call, template, major) in [
            (ApiRequest::get("/users/@me"), "GET /users/@me", ""),
            (ApiRequest::get("/channels/1/messages?limit=100&after=7"), "GET /channels/{}/messages", "/1"),
            (ApiRequest::post("/channels/1/messages", &()), "POST /channels/{}/messages", "/1"),
            (ApiRequest::patch("/channels/1/messages/2", &()), "PATCH /channels/{}/messages/{}", "/1"),
            (ApiRequest::delete("/channels/2/messages/2"), "DELETE /channels/{}/messages/{}", "/2"),
            (ApiRequest::put("/applications/9/commands", &()), "PUT /applications/{}/commands", ""),
            (ApiRequest::post("/interactions/5/aB-c/callback", &()), "POST /interactions/{}/{}/callback", "/5/aB-c"),
        ] {
            let route = call.route();
            assert_eq!((route.template.as_str(), route.major.as_str()), (template, major));
        }
    }

    #[test]
    fn debug_hides_path_tokens_and_body() {
        let shown = format!("{:?}", ApiRequest::post("/interactions/5/secret-token/callback", &"what a person wrote"));
        assert_eq!(shown, "ApiRequest(\"POST /interactions/{}/{}/callback\")");
    }
}
