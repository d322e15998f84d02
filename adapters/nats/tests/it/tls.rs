//! Encrypted connections and logins by key: to the server that a known authority vouches for, and to no other.

use std::error::Error;

use satchel_nats::{ClientCertificate, NatsConnection, NatsError, NatsLogin, NatsSettings};
use satchel_requirements::required;
use satchel_servers::{TestAuthority, nats::NatsServer};

fn settings(server: &NatsServer, authority: &TestAuthority) -> NatsSettings {
    let url = format!("tls://{}", server.address());
    NatsSettings { ca_file: Some(authority.certificate()), ..NatsSettings::new(url.into()) }
}

/// The error and what caused it, as one text; a retry doesn't help.
async fn refused(settings: NatsSettings) -> String {
    let error = NatsConnection::open(&settings).await.expect_err("it is not trusted");
    assert!(!error.is_retryable(), "{error:?}");
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

#[tokio::test]
async fn only_the_right_server_of_a_known_authority_is_trusted() {
    let Some(authority) = required(TestAuthority::create()) else { return };
    let certificate = authority.issue("IP:127.0.0.1").unwrap();
    let Some(server) = required(NatsServer::start_with_tls(&certificate, "").await) else { return };
    NatsConnection::open(&settings(&server, &authority)).await.unwrap();
    let plain = NatsSettings { url: server.url().into(), ..settings(&server, &authority) };
    NatsConnection::open(&plain).await.expect("the server asks for TLS");

    let no_connection = format!("no encrypted connection to NATS at {}; check `bus.ca_file`", server.address());
    let unknown = TestAuthority::create().unwrap();
    for other in [Some(unknown.certificate()), None] {
        let text = refused(NatsSettings { ca_file: other, ..settings(&server, &authority) }).await;
        assert!(text.starts_with(&no_connection) && text.contains("UnknownIssuer"), "{text}");
    }
    let missing = authority.certificate().with_file_name("missing.pem");
    let text = refused(NatsSettings { ca_file: Some(missing.clone()), ..settings(&server, &authority) }).await;
    assert!(text.starts_with(&format!("failed to read `{}`", missing.display())), "{text}");

    // Another host's certificate, which the same authority has issued.
    let certificate = authority.issue("DNS:other.example").unwrap();
    let Some(server) = required(NatsServer::start_with_tls(&certificate, "").await) else { return };
    let text = refused(settings(&server, &authority)).await;
    assert!(text.contains("not valid for name"), "{text}");

    let Some(server) = required(NatsServer::start().await) else { return };
    let text = refused(settings(&server, &authority)).await;
    assert!(text.starts_with("no encrypted connection to NATS at"), "a server without TLS: {text}");
}

#[tokio::test]
async fn server_may_ask_for_a_certificate() {
    let Some(authority) = required(TestAuthority::create()) else { return };
    let (of_server, of_client) = (authority.issue("IP:127.0.0.1").unwrap(), authority.issue("DNS:satchel").unwrap());
    let configuration = format!(
        "tls {{ cert_file: '{}', key_file: '{}', ca_file: '{}', verify: true }}",
        of_server.certificate.display(),
        of_server.key.display(),
        authority.certificate().display()
    );
    let Some(server) = required(NatsServer::start_with(&configuration).await) else { return };
    let certificate = ClientCertificate { certificate_file: of_client.certificate, key_file: of_client.key };
    let settings = settings(&server, &authority);
    NatsConnection::open(&NatsSettings { client_certificate: Some(certificate), ..settings.clone() }).await.unwrap();
    NatsConnection::open(&settings).await.expect_err("it shows none");
}

#[tokio::test]
async fn key_logs_in_without_leaving_the_process() {
    let (user, stranger) = (nkeys::KeyPair::new_user(), nkeys::KeyPair::new_user());
    let configuration = format!("authorization {{ users: [{{ nkey: {} }}] }}", user.public_key());
    let Some(server) = required(NatsServer::start_with(&configuration).await) else { return };
    let with_key = |seed: String| NatsSettings {
        login: Some(NatsLogin::Nkey(seed.into())),
        ..NatsSettings::new(server.url().into())
    };
    NatsConnection::open(&with_key(user.seed().unwrap())).await.unwrap();
    for seed in [stranger.seed().unwrap(), "no seed".to_owned()] {
        let settings = with_key(seed.clone());
        let error = NatsConnection::open(&settings).await.unwrap_err();
        assert!(matches!(error, NatsError::Login { .. }), "{error:?}");
        let text = refused(settings.clone()).await;
        assert!(!format!("{text} {error:?} {settings:?}").contains(&seed), "{text}");
    }
    let credentials = NatsLogin::Credentials("canary".into());
    let text = refused(NatsSettings { login: Some(credentials), ..NatsSettings::new(server.url().into()) }).await;
    assert!(text.starts_with("`bus.credentials` is not the content of a credentials file"), "{text}");
    assert!(!text.contains("canary"), "{text}");
}
