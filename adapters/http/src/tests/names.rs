//! Attacks by names: what they lead to is checked where it is connected to.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rstest::rstest;

use super::{
    server::{StubServer, ok, redirect},
    *,
};
use crate::resolver::DnsLookup;

/// Names that lead to these addresses, another list each time they are asked for, the last for ever; and how often that
/// was.
fn scripted_lookup(lists: &[&[&str]]) -> (DnsLookup, Arc<AtomicUsize>) {
    let lists: Vec<Vec<IpAddr>> =
        lists.iter().map(|list| list.iter().map(|address| address.parse().expect("an address")).collect()).collect();
    let asked = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&asked);
    let lookup: DnsLookup = Arc::new(move |_| {
        let at = count.fetch_add(1, Ordering::SeqCst).min(lists.len() - 1);
        let list = lists[at].clone();
        Box::pin(async move { Ok(list) })
    });
    (lookup, asked)
}

/// Anybody can let a name of their own lead to 127.0.0.1.
#[rstest]
#[case::this_machine(&["127.0.0.1"])]
#[case::this_machine_by_ipv6(&["::1"])]
#[case::ipv4_inside_ipv6(&["::ffff:127.0.0.1"])]
#[case::the_cloud_s_metadata(&["169.254.169.254"])]
#[case::one_of_many(&["192.0.43.8", "127.0.0.1"])]
#[case::the_other_family(&["192.0.43.8", "::1"])]
#[tokio::test]
async fn a_name_that_leads_inside_is_not_asked(#[case] addresses: &[&str]) {
    let victim = StubServer::victim().await;
    let (lookup, _) = scripted_lookup(&[addresses]);
    let fetcher = HttpFetcher::with_lookup(settings(&[]), lookup);
    let url = format!("http://harmless.example:{}/file?sig=secret", victim.port());
    let reason = refusal(&fetcher, &url).await;
    assert!(reason.starts_with("http://harmless.example:") && reason.contains("its name resolves to"), "{reason}");
    assert!(!reason.contains("secret"), "{reason}");
    assert_eq!(victim.heads(), [] as [&str; 0]);
}

/// The operator's network translates to IPv4 (NAT64), and its range is allowed; the network itself is not.
#[rstest]
#[tokio::test]
async fn allowed_nat64_range_opens_no_private_network(
    #[values("64:ff9b::169.254.169.254", "64:ff9b::10.0.0.1")] address: &str,
) {
    let (lookup, _) = scripted_lookup(&[&[address]]);
    let fetcher = HttpFetcher::with_lookup(settings(&["64:ff9b::/96".to_owned()]), lookup);
    let reason = refusal(&fetcher, "http://harmless.example/latest/meta-data").await;
    assert!(reason.contains("its name resolves to"), "{reason}");
    let reason = refusal(&fetcher, &format!("http://[{address}]/latest/meta-data")).await;
    assert!(reason.contains("is not requested"), "{reason}");
}

/// The system's own names for this machine.
#[rstest]
#[tokio::test]
async fn this_machine_s_own_names_are_not_asked(#[values("localhost", "LOCALHOST", "localhost.")] name: &str) {
    let victim = StubServer::victim().await;
    let fetcher = HttpFetcher::new(settings(&[]));
    let failure = fetch(&fetcher, &format!("http://{name}:{}/", victim.port())).await.map(|fetched| fetched.url);
    assert!(failure.is_err(), "{failure:?}");
    assert_eq!(victim.heads(), [] as [&str; 0]);
}

/// DNS rebinding within one fetch: checked when it still leads outside, connected to when it leads inside. The name is
/// asked for once, and what was answered is what is connected to.
#[tokio::test]
async fn name_is_resolved_once_and_connected_as_resolved() {
    let (outside, inside) = StubServer::outside_and_inside(ok("", b"harmless")).await;
    let (lookup, asked) = scripted_lookup(&[&["127.0.0.2"], &["127.0.0.1"]]);
    let fetcher = HttpFetcher::with_lookup(settings(&["127.0.0.2".to_owned()]), lookup);
    let url = format!("http://rebinding.example:{}/file", outside.port());
    let fetched = fetch(&fetcher, &url).await.unwrap();
    assert_eq!(read_bytes(fetched).await.unwrap(), b"harmless");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    // The next fetch asks anew, and hears that it leads inside.
    assert!(refusal(&fetcher, &url).await.contains("its name resolves to this machine"));
    assert_eq!(inside.heads(), [] as [&str; 0]);
}

/// DNS rebinding by a redirect to the same name: each hop is checked.
#[tokio::test]
async fn redirect_to_same_name_is_rechecked() {
    let (outside, inside) = StubServer::outside_and_inside(redirect("/secrets")).await;
    let (lookup, _) = scripted_lookup(&[&["127.0.0.2"], &["127.0.0.1"]]);
    let fetcher = HttpFetcher::with_lookup(settings(&["127.0.0.2".to_owned()]), lookup);
    let url = format!("http://rebinding.example:{}/file", outside.port());
    assert!(refusal(&fetcher, &url).await.contains("its name resolves to this machine"));
    assert_eq!((outside.heads().len(), inside.heads().len()), (1, 0));
}

/// A host that the operator allows may lead anywhere, by exactly this name and port.
#[tokio::test]
async fn only_exactly_allowed_targets_are_requested() {
    let server = StubServer::saying(vec![ok("", b"x")]).await;
    let other = StubServer::victim().await;
    let (port, other_port) = (server.port(), other.port());
    let allowing = |allowed: String| {
        let (lookup, _) = scripted_lookup(&[&["127.0.0.1"]]);
        HttpFetcher::with_lookup(settings(&[allowed]), lookup)
    };
    for (allowed, url) in [
        (format!("files.lan:{port}"), format!("http://files.lan:{port}/")),
        ("files.lan".to_owned(), format!("http://FILES.lan:{port}/")),
        ("127.0.0.0/8".to_owned(), format!("http://whatever.example:{port}/")),
        ("127.0.0.1".to_owned(), format!("http://127.0.0.1:{port}/")),
    ] {
        assert!(fetch(&allowing(allowed.clone()), &url).await.is_ok(), "{url} with {allowed}");
    }
    for (allowed, url) in [
        (format!("files.lan:{port}"), format!("http://files.lan:{other_port}/")),
        ("files.lan".to_owned(), format!("http://more.files.lan:{other_port}/")),
        ("files.lan".to_owned(), format!("http://127.0.0.1:{other_port}/")),
        ("10.0.0.0/8".to_owned(), format!("http://files.lan:{other_port}/")),
        (format!("127.0.0.1:{port}"), format!("http://127.0.0.1:{other_port}/")),
    ] {
        refusal(&allowing(allowed), &url).await;
    }
    assert_eq!(other.heads(), [] as [&str; 0]);
}

/// A proxy would look the name up and connect by itself, past every check: none of the environment is used.
#[tokio::test]
async fn no_proxy_is_asked() {
    let proxy = StubServer::victim().await;
    let this_test_binary = std::env::current_exe().expect("it runs");
    let mut child = tokio::process::Command::new(this_test_binary);
    child.args(["--exact", "tests::answers::a_file_is_fetched"]);
    for variable in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(variable, proxy.url(""));
    }
    let child = child.env_remove("NO_PROXY").env_remove("no_proxy").output().await.expect("it can be started");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
    assert_eq!(proxy.heads(), [] as [&str; 0]);
}
