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
    let (rest, query) = match rest.split_once(['?', '#']) {
        Some((rest, _)) => (rest, format!("?{MASK}")),
        None => (rest, String::new()),
    };
    // A password may hold a slash that was not escaped, so the last `@` ends the credentials wherever it stands.
    let shown = match rest.rsplit_once('@') {
        Some((_, host)) => format!("{MASK}@{host}"),
        None => rest.to_owned(),
    };
    format!("{scheme}:{slashes}{shown}{query}")
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
            ("canary", MASK),
        ] {
            assert_eq!(mask_url(&SecretString::from(url)), shown);
        }
    }
}
