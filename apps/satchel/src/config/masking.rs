//! What is shown in place of a secret.

use secrecy::{ExposeSecret, SecretString};

/// Stands for a secret that is set.
pub(crate) const MASK: &str = "********";

/// A URL without what may be secret in it: user, password and query.
pub(crate) fn mask_url(url: &SecretString) -> String {
    let url = url.expose_secret();
    let Some((scheme, rest)) = url.split_once(':') else { return MASK.to_owned() };
    let (slashes, rest) = match rest.strip_prefix("//") {
        Some(rest) => ("//", rest),
        None => ("", rest),
    };
    // A password may hold a slash, a `?` or a `#` that was not escaped, so the last `@` ends the credentials wherever it
    // stands. One behind a `?` may as well stand in the query, in the middle of a secret; then nothing can be told apart.
    let (credentials, place) = match rest.rsplit_once('@') {
        Some((credentials, _)) if credentials.contains(['?', '#']) => return format!("{scheme}:{slashes}{MASK}"),
        Some((_, place)) => (format!("{MASK}@"), place),
        None => (String::new(), rest),
    };
    let (place, query) = match place.split_once(['?', '#']) {
        Some((place, _)) => (place, format!("?{MASK}")),
        None => (place, String::new()),
    };
    format!("{scheme}:{slashes}{credentials}{place}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_keep_their_host_and_lose_their_secrets() {
        for (url, shown) in [
            ("postgres://me:canary@db/satchel", "postgres://********@db/satchel"),
            ("postgres://me:can/ary@db:5432/x", "postgres://********@db:5432/x"),
            ("postgres://db/x?password=canary", "postgres://db/x?********"),
            ("sqlite:/var/lib/a.db", "sqlite:/var/lib/a.db"),
            ("postgres://me:can?ary@db/x", "postgres://********"),
            ("postgres://me:can#ary@db/x?a=canary", "postgres://********"),
            ("postgres://db/x?password=can@ary", "postgres://********"),
            ("postgres://me:can@ary@db/x?password=canary#canary", "postgres://********@db/x?********"),
            ("canary", MASK),
        ] {
            assert_eq!(mask_url(&SecretString::from(url)), shown);
        }
    }
}
