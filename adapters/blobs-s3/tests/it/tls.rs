//! HTTPS: to the server that a known authority vouches for, and to no other.

use satchel_blobs_s3::{BucketError, S3Blobs, S3Settings};
use satchel_ports::Blobs;
use satchel_requirements::required;
use satchel_servers::{S3Server, TestAuthority};

use crate::stage::{chunks, put, read};

async fn start(authority: &TestAuthority, subject: &str) -> Result<S3Server, String> {
    S3Server::start_with_tls(&authority.issue(subject)?).await
}

fn settings(server: &S3Server) -> S3Settings {
    S3Settings::parse(&server.url("tls"), |_| None).expect("the URL is valid")
}

async fn refused(settings: S3Settings) -> String {
    let checked: Result<(), BucketError> = match S3Blobs::new(&settings.with_retry_timeout(Default::default())) {
        Ok(blobs) => blobs.check().await,
        Err(error) => Err(error),
    };
    let error = checked.expect_err("it is not trusted");
    assert!(!error.is_retryable(), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn only_the_right_server_of_a_known_authority_is_trusted() {
    let Some(authority) = required(TestAuthority::create()) else { return };
    let Some(server) = required(start(&authority, "IP:127.0.0.1").await) else { return };
    let known = authority.certificate();
    let blobs = S3Blobs::new(&settings(&server).with_ca_file(known.clone())).unwrap();
    blobs.check().await.unwrap();
    // In parts, whose client is another one.
    let stored = put(&blobs, chunks(200)).await.unwrap();
    assert_eq!(read(&blobs, &stored.sha256).await.unwrap().len(), 200 * 64 * 1024);
    blobs.sweep().await.unwrap();
    let by_variable =
        S3Settings::parse(&server.url("tls"), |name| (name == "AWS_CA_BUNDLE").then(|| known.display().to_string()));
    S3Blobs::new(&by_variable.unwrap()).unwrap().check().await.unwrap();

    let text = refused(settings(&server)).await;
    assert!(text.starts_with("no encrypted connection to the bucket `satchel-files` at https://127.0.0.1:"), "{text}");
    assert!(text.contains("UnknownIssuer") && text.contains("`storage.blobs_ca_file`"), "{text}");
    let other = TestAuthority::create().unwrap();
    assert!(refused(settings(&server).with_ca_file(other.certificate())).await.contains("UnknownIssuer"));
    let key = authority.issue("IP:127.0.0.1").unwrap().key;
    for (file, reason) in [("/nowhere/ca.pem".into(), "can't be read"), (key, "holds no certificates")] {
        let text = refused(settings(&server).with_ca_file(file)).await;
        assert!(text.contains(reason), "{text}");
    }

    // Another host's certificate, which the same authority has issued.
    let Some(server) = required(start(&authority, "DNS:other.example").await) else { return };
    let text = refused(settings(&server).with_ca_file(known)).await;
    assert!(text.contains("not valid for name"), "{text}");
}
