//! Attacks by redirects, and by the first address itself.

use rstest::rstest;

use super::{
    server::{ServerStep, StubServer, answer, ok, redirect},
    *,
};

/// The attacker answers a harmless address with one inside: the guard must look at each hop.
#[rstest]
#[case::this_machine("http://127.0.0.1:PORT/secrets", "this machine")]
#[case::another_address_of_this_machine("http://127.1.2.3:PORT/secrets", "this machine")]
#[case::the_cloud_s_metadata("http://169.254.169.254/latest/meta-data/", "the local link")]
#[case::this_machine_by_ipv6("http://[::1]:PORT/secrets", "this machine")]
#[case::ipv4_inside_ipv6("http://[::ffff:127.0.0.1]:PORT/secrets", "hides another one")]
#[case::one_number("http://2130706433:PORT/secrets", "this machine")]
#[case::octal("http://0177.0.0.1:PORT/secrets", "this machine")]
#[case::hex("http://0x7f.1:PORT/secrets", "this machine")]
#[case::short("http://127.1:PORT/secrets", "this machine")]
#[case::a_dot_at_the_end("http://127.0.0.1.:PORT/secrets", "this machine")]
#[case::percent_signs("http://%31%32%37.0.0.1:PORT/secrets", "this machine")]
#[case::wide_digits("http://127.0.0.1:PORT/secrets", "this machine")]
#[case::zero("http://0:PORT/secrets", "this machine")]
#[case::unspecified("http://[::]:PORT/secrets", "this machine")]
#[case::a_private_network("http://192.168.0.1/", "an address in a private network")]
#[case::nat64("http://[64:ff9b::7f00:1]:PORT/", "hides another one")]
#[case::credentials("http://me:secret@127.0.0.1:PORT/", "credentials")]
#[case::a_backslash("http://example.com\\@127.0.0.1:PORT/", "http://example.com/")]
#[case::another_scheme_s_slashes("//127.0.0.1:PORT/secrets", "this machine")]
#[tokio::test]
async fn internal_address_is_unreachable_directly_or_by_redirect(#[case] inside: &str, #[case] says: &str) {
    let victim = StubServer::victim().await;
    let inside = inside.replace("PORT", &victim.port().to_string());
    let to = inside.clone();
    let attacker = StubServer::start(move |_| vec![redirect(&to)]).await;
    // A name that is not an address is answered by nobody here.
    let nobody: crate::resolver::DnsLookup = std::sync::Arc::new(|_| Box::pin(async { Ok(vec![]) }));
    let fetcher = HttpFetcher::with_lookup(settings(&[attacker.address().to_string()]), nobody);
    for url in [attacker.url("/file"), inside] {
        if url.starts_with("//") {
            continue;
        }
        let failure = fetch(&fetcher, &url).await.map(|fetched| fetched.url).unwrap_err().to_string();
        assert!(failure.contains(says), "{url}: {failure}");
        assert!(!failure.contains("secret@"), "{failure}");
    }
    assert_eq!(victim.heads(), [] as [&str; 0], "the victim was asked");
    assert!(attacker.heads().len() == 1, "the attacker was asked, and answered");
}

/// Nothing but the web is fetched: not the disk, and no protocol that could be made to say something to a server inside.
#[rstest]
#[tokio::test]
async fn no_other_scheme_is_followed(
    #[values("file:///etc/passwd", "ftp://example.com/x", "gopher://127.0.0.1:25/", "data:text/plain,x", "ws://x/")]
    to: &'static str,
) {
    let attacker = StubServer::start(move |_| vec![redirect(to)]).await;
    for url in [attacker.url("/file"), to.to_owned()] {
        let reason = refusal(&fetcher_for(&attacker), &url).await;
        assert!(reason.starts_with("only http and https are fetched, not "), "{reason}");
    }
}

#[tokio::test]
async fn three_redirects_are_followed_and_fourth_refused() {
    let hops = |path: &str| match path {
        "/1" => vec![redirect("/2?and=more")],
        "/2?and=more" => vec![redirect("3")],
        "/3" => vec![redirect("./4#fragment")],
        "/4" => vec![ok("", b"there")],
        _ => vec![redirect("/1")],
    };
    let server = StubServer::start(hops).await;
    let fetcher = fetcher_for(&server);
    let fetched = fetch(&fetcher, &server.url("/1")).await.unwrap();
    assert_eq!(fetched.url, server.url("/4"));
    assert_eq!(read_bytes(fetched).await.unwrap(), b"there");
    let reason = refusal(&fetcher, &server.url("/0")).await;
    assert!(reason.starts_with("more than 3 redirects"), "{reason}");
    assert_eq!(server.heads().len(), 8, "four requests each");
}

/// A server that leads to itself for ever would keep us busy for ever.
#[tokio::test]
async fn a_redirect_loop_ends() {
    let server = StubServer::start(|_| vec![redirect("/file")]).await;
    assert!(refusal(&fetcher_for(&server), &server.url("/file")).await.starts_with("more than 3 redirects"));
    assert_eq!(server.heads().len(), 4);
}

/// The file's host is on the list, and leads to one that is not.
#[tokio::test]
async fn unlisted_host_is_never_requested_even_by_redirect() {
    let victim = StubServer::victim().await;
    let to = format!("http://localhost:{}/", victim.port());
    let listed =
        StubServer::start(move |path| if path == "/on" { vec![redirect(&to)] } else { vec![ok("", b"x")] }).await;
    // The victim may be asked as far as its address goes.
    let fetcher = HttpFetcher::new(settings(&["127.0.0.0/8".to_owned(), "localhost".to_owned()]));
    let only = |url: String| {
        let hosts = HostPolicy::Only(vec!["127.0.0.1".to_owned()]);
        let request = FetchRequest { url, hosts, max_bytes: LIMIT };
        let fetcher = &fetcher;
        async move { fetcher.fetch(&request).await.map(|fetched| fetched.url) }
    };
    assert_eq!(only(listed.url("/file")).await, Ok(listed.url("/file")));
    for url in [listed.url("/on"), format!("http://localhost:{}/", victim.port())] {
        let refused = only(url).await.unwrap_err().to_string();
        assert_eq!(refused, "refused: files from localhost are not fetched here, only from 127.0.0.1");
    }
    // Names that begin or end like a listed one are other names.
    for url in ["http://127.0.0.1.example/", "http://x127.0.0.1.example/", "http://127.0.0.1@localhost/"] {
        assert!(matches!(only(url.to_owned()).await, Err(FetcherError::Rejected { .. })), "{url}");
    }
    assert_eq!(victim.heads(), [] as [&str; 0]);
}

/// Whoever listens on the line would see the rest of the way, and could put another file in.
#[test]
fn redirect_never_downgrades_to_unencrypted_url() {
    let guard = crate::guard::UrlGuard { allowed: Vec::new() };
    let from = guard.check_first("https://example.com/a?sig=secret", &HostPolicy::Public).unwrap().url;
    let failure = guard.check_redirect(&from, b"http://example.com/b", &HostPolicy::Public).unwrap_err().to_string();
    assert_eq!(failure, "refused: https://example.com/a redirects from https to http");
    assert!(guard.check_redirect(&from, b"//example.org/b", &HostPolicy::Public).is_ok(), "it stays encrypted");
    let from = guard.check_first("http://example.com/a", &HostPolicy::Public).unwrap().url;
    assert!(guard.check_redirect(&from, b"https://example.com/b", &HostPolicy::Public).is_ok());
}

#[rstest]
#[case::nothing(answer(302, "", b""), "redirects without a target")]
#[case::no_host(redirect("http://"), "redirects to an invalid address")]
#[case::no_text(ServerStep::Send(b"HTTP/1.1 302 Found\r\nLocation: /\xff\r\n\r\n".to_vec()), "redirects to an invalid address")]
#[case::endless(redirect(&"x".repeat(9_000)), "redirects to an invalid address")]
#[tokio::test]
async fn a_redirect_to_nothing_is_refused(#[case] step: ServerStep, #[case] says: &str) {
    let server =
        StubServer::start(move |path| if path == "/file" { vec![step.clone()] } else { vec![answer(400, "", b"")] });
    let server = server.await;
    let reason = refusal(&fetcher_for(&server), &server.url("/file")).await;
    assert!(reason.contains(says), "{reason}");
}

/// What one server sets or sees must not be told to the next.
#[tokio::test]
async fn next_server_learns_nothing_about_previous_one() {
    let second = StubServer::saying(vec![ok("", b"x")]).await;
    let to = second.url("/next");
    let first = StubServer::start(move |_| {
        vec![answer(302, &format!("Location: {to}\r\nSet-Cookie: id=1; Path=/\r\nContent-Length: 0\r\n"), b"")]
    })
    .await;
    let fetcher = HttpFetcher::new(settings(&[first.address().to_string(), second.address().to_string()]));
    fetch(&fetcher, &first.url("/file?sig=secret")).await.unwrap();
    fetch(&fetcher, &first.url("/file?sig=secret")).await.unwrap();
    for head in [first.heads(), second.heads()].concat() {
        let head = head.to_ascii_lowercase();
        for told in ["cookie", "referer", "authorization", "origin", "forwarded"] {
            assert!(!head.contains(told), "{head}");
        }
    }
    assert!(second.heads().iter().all(|head| !head.contains("secret")));
}
