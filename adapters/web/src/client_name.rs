//! Names a client by its `User-Agent`, in a few words by which a person recognises their browser.

use axum::http::{HeaderMap, header};

/// What browsers call themselves, each before those whose name it has, too.
const BROWSERS: [(&str, &str); 9] = [
    ("Edg/", "Edge"),
    ("EdgA/", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
];

/// What systems are called, each before those whose name it has, too.
const SYSTEMS: [(&str, &str); 7] = [
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
];

/// The longest name of a program in characters.
const MAX_PROGRAM_CHARS: usize = 40;

/// Returns the name of the client that sent these headers. Nothing of them is in it but a short plain word.
pub(crate) fn client_name(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let find = |names: &[(&str, &'static str)]| {
        let found = names.iter().find(|(mark, _)| agent.contains(mark));
        found.map(|(_, name)| *name)
    };
    match (find(&BROWSERS), find(&SYSTEMS)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(browser), None) => browser.to_owned(),
        (None, _) => program_name(agent),
    }
}

/// Returns the first word of what a program calls itself.
fn program_name(agent: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = agent.chars().take_while(|c| is_plain(*c)).take(MAX_PROGRAM_CHARS).collect();
    if name.is_empty() { "unknown program".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn client_is_named_in_a_few_plain_words() {
        let chrome =
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36";
        let edge = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 \
                    Safari/537.36 Edg/138.0.0.0";
        let phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
                     Version/18.5 Mobile/15E148 Safari/604.1";
        for (agent, name) in [
            (chrome, "Chrome on Linux"),
            (edge, "Edge on Windows"),
            (phone, "Safari on iPhone"),
            ("Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0", "Firefox on Android"),
            ("Firefox/140.0", "Firefox"),
            ("curl/8.14.1", "curl"),
            ("", "unknown program"),
            ("<img src=x onerror=alert(1)>", "unknown program"),
        ] {
            let headers = HeaderMap::from_iter([(header::USER_AGENT, HeaderValue::from_static(agent))]);
            assert_eq!(client_name(&headers), name);
        }
        assert_eq!(client_name(&HeaderMap::new()), "unknown program");
        let long = HeaderValue::try_from("x".repeat(5_000)).unwrap();
        assert_eq!(client_name(&HeaderMap::from_iter([(header::USER_AGENT, long)])).len(), 40);
    }
}
