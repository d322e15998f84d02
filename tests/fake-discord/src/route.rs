//! Which routes there are: the OpenAPI's, as far as this fake has them.

/// The name under which downloads of files are scripted and counted.
pub const CDN: &str = "CDN";

/// Methods and paths below `/api/v10`, in the order in which they are tried. `{}` stands for whatever is there; the
/// first one is what Discord calls the major parameter, if the path begins with one of [`MAJOR`].
const ROUTES: &[(&str, &str)] = &[
    ("GET", "/gateway"),
    ("GET", "/gateway/bot"),
    ("GET", "/users/@me"),
    ("POST", "/users/@me/channels"),
    ("GET", "/applications/@me"),
    ("GET", "/oauth2/applications/@me"),
    ("GET", "/applications/{}/commands"),
    ("PUT", "/applications/{}/commands"),
    ("GET", "/channels/{}"),
    ("GET", "/channels/{}/messages"),
    ("POST", "/channels/{}/messages"),
    ("GET", "/channels/{}/messages/{}"),
    ("PATCH", "/channels/{}/messages/{}"),
    ("DELETE", "/channels/{}/messages/{}"),
    ("POST", "/channels/{}/typing"),
    ("GET", "/guilds/{}"),
    ("POST", "/interactions/{}/{}/callback"),
    // Not in the OpenAPI; Discord's own clients and many bots use it.
    ("POST", "/attachments/refresh-urls"),
];

/// Rate Limits: "Top-Level Resources": "channels (channel_id), guilds (guild_id), and webhooks".
const MAJOR: [&str; 3] = ["/channels/{}", "/guilds/{}", "/webhooks/{}"];

/// A route that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FakeRoute {
    /// As in `POST /channels/{}/messages`.
    pub(crate) name: String,
    /// What stands in place of each `{}`.
    pub(crate) ids: Vec<String>,
    pub(crate) major: Option<String>,
}

/// Why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteError {
    NotFound,
    /// The path has other methods.
    WrongMethod,
}

/// Finds the route of a request; `path` begins after `/api/v10`.
pub(crate) fn find(method: &str, path: &str) -> Result<FakeRoute, RouteError> {
    let mut paths = ROUTES.iter().filter_map(|(of, template)| Some((*of, *template, captured(template, path)?)));
    let Some((_, nearest, _)) = paths.clone().next() else { return Err(RouteError::NotFound) };
    let found = paths.find(|(of, template, _)| *of == method && *template == nearest);
    let (method, template, ids) = found.ok_or(RouteError::WrongMethod)?;
    let major = MAJOR.iter().any(|major| template.starts_with(major)).then(|| ids[0].clone());
    Ok(FakeRoute { name: format!("{method} {template}"), ids, major })
}

/// What stands in place of each `{}`, if the path is one of this template.
fn captured(template: &str, path: &str) -> Option<Vec<String>> {
    let (wanted, given): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    let fits = |(wanted, given): (&&str, &&str)| *wanted == *given || (*wanted == "{}" && !given.is_empty());
    if wanted.len() != given.len() || !wanted.iter().zip(&given).all(fits) {
        return None;
    }
    let taken = wanted.iter().zip(&given).filter(|(wanted, _)| **wanted == "{}").map(|(_, given)| (*given).to_owned());
    Some(taken.collect())
}
