//! Files in a bucket of S3, with the real binary: received, sent by a tool, read after a restart, and refused at the start.

use std::process::{Child, Stdio};

use satchel_fake_kit::FakeFile;
use satchel_fake_model::{FakeModelServer, ModelReply, ModelWire, ScriptedCall};
use satchel_fake_telegram::{FakeTelegram, FileKind, PersonMessage, TelegramRules};
use satchel_requirements::required;
use satchel_servers::{BucketProxy, S3Server};
use satchel_system::real_binary::{ProcessOutput, TestHome, run_to_end};
use satchel_wait::wait_until;

const ANN: i64 = 41;

/// A process that is killed when dropped.
struct KilledAtEnd(Child);

impl Drop for KilledAtEnd {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}

fn serve(home: &TestHome) -> KilledAtEnd {
    let mut serve = home.satchel_command(&["run"]);
    KilledAtEnd(serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_a_chat_are_kept_in_the_bucket() {
    let Some(server) = required(S3Server::start().await) else { return };
    let (home, telegram) = (TestHome::new(), FakeTelegram::start(TelegramRules::default()).await.expect("a port"));
    let chat = telegram.private_chat(telegram.person(ANN, "Ann"));
    home.write_file(
        "satchel.yaml",
        format!(
            "telegram: {{ token: '{}', api_url: '{}', owners: [{ANN}] }}\nmodel: offline\nweb: {{ listen: off }}\n\
             storage: {{ blobs_url: '{}' }}\n",
            telegram.token(),
            telegram.api_url(),
            server.url("files")
        ),
    );
    let running = serve(&home);
    // More than a part, so that it is uploaded in several.
    let file = FakeFile::generated("report.bin", "application/octet-stream", 7, 6 << 20);
    telegram.person_sends(chat, ANN, PersonMessage::file(FileKind::Document, file.clone()).caption("keep this"));
    wait_until("an answer", || !telegram.transcript().texts(chat).is_empty()).await;
    telegram.person_says(chat, ANN, "send #1");
    wait_until("the file, sent by a tool", || telegram.transcript().files(chat).len() == 1).await;
    drop(running);
    let _running = serve(&home);
    telegram.person_says(chat, ANN, "/resend 1");
    wait_until("the file, after a restart", || telegram.transcript().files(chat).len() == 2).await;
    for sent in telegram.transcript().files(chat) {
        assert_eq!(sent.sha256, file.sha256());
    }
    assert!(!home.data_directory().join("blobs").exists(), "nothing of it is on the disk");

    let checked = home.run(&["doctor"]);
    assert!(checked.stdout.contains("can be listed, read and written"), "{checked:#?}");
    assert!(!format!("{checked:?}").contains(&server.writer.secret), "{checked:#?}");
    let backup = home.run(&["backup", "create", "../backups"]);
    assert_eq!(backup.exit_code(), Some(1), "{backup:#?}");
    assert!(backup.stderr.contains("back up the bucket by its own means"), "{backup:#?}");
}

/// The person and the model are told; what was stored stays, and what comes when there is room again is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_bucket_refuses_files_until_there_is_room() {
    let Some(server) = required(S3Server::start().await) else { return };
    let proxy = BucketProxy::start(server.port()).await.expect("a loopback port");
    let (home, telegram) = (TestHome::new(), FakeTelegram::start(TelegramRules::default()).await.expect("a port"));
    let model = FakeModelServer::start().await.expect("a loopback port");
    let chat = telegram.private_chat(telegram.person(ANN, "Ann"));
    let wire = ModelWire::OpenAiChat;
    home.write_file(
        "satchel.yaml",
        format!(
            "telegram: {{ token: '{}', api_url: '{}', owners: [{ANN}] }}\nweb: {{ listen: off }}\nmodel: fake\n\
             models: {{ fake: {{ provider: openai, base_url: '{}', api_key: '{}', model: '{}' }} }}\n\
             storage: {{ blobs_url: '{}' }}\n",
            telegram.token(),
            telegram.api_url(),
            model.base_url(wire),
            FakeModelServer::KEY,
            wire.model(),
            server.url_of(server.bucket(), "", &server.writer, proxy.port()),
        ),
    );
    let _running = serve(&home);
    let [kept, refused, late] = [("kept.bin", 1), ("refused.bin", 2), ("late.bin", 3)]
        .map(|(name, seed)| FakeFile::generated(name, "application/octet-stream", seed, 100_000));
    let send = |file: &FakeFile| {
        let message = PersonMessage::file(FileKind::Document, file.clone());
        telegram.person_sends(chat, ANN, message.caption(&format!("this is {}", file.filename)));
    };
    let has_text = |text: &str| telegram.transcript().texts(chat).iter().any(|sent| sent.contains(text));
    model.reply(ModelReply::text("I have it."));
    send(&kept);
    wait_until("an answer", || has_text("I have it.")).await;

    proxy.set_full(true);
    model.reply(ModelReply::text("What a pity."));
    send(&refused);
    wait_until("an answer", || has_text("What a pity.")).await;
    assert!(has_text("I couldn't accept refused.bin"), "{}", telegram.transcript());
    let read = model.last().user_text();
    assert!(read.contains("Not taken: \"refused.bin\""), "{read}");
    let write = r#"{"path": "/tmp/own.txt", "content": "made here"}"#;
    model.reply(ModelReply::calls([ScriptedCall::new("file_write", write)]));
    model.reply(ModelReply::calls([ScriptedCall::new("attachment_add", r#"{"path": "/tmp/own.txt"}"#)]));
    model.reply(ModelReply::text("I can't send it now."));
    telegram.person_says(chat, ANN, "make a file");
    wait_until("an answer", || has_text("I can't send it now.")).await;
    let added = format!("{:?}", model.last().results().last());
    assert!(added.contains("no space is left"), "{added}");
    assert!(telegram.transcript().files(chat).is_empty(), "{}", telegram.transcript());

    proxy.set_full(false);
    model.reply(ModelReply::text("That one fits."));
    send(&late);
    wait_until("an answer", || has_text("That one fits.")).await;
    for (number, file) in [(1, &kept), (2, &late)] {
        telegram.person_says(chat, ANN, &format!("/resend {number}"));
        wait_until("the file", || telegram.transcript().files(chat).len() == number).await;
        let sent = telegram.transcript().files(chat).last().map(|sent| sent.sha256);
        assert_eq!(sent, Some(file.sha256()), "{}", telegram.transcript());
    }
}

/// Writes a file to the store of a URL, with these variables.
fn keep_file(url: &str, variables: &[(&str, &str)]) -> ProcessOutput {
    let home = TestHome::new();
    home.write_file("satchel.yaml", format!("model: offline\nstorage: {{ blobs_url: '{url}' }}\n"));
    let file = home.write_file("note.txt", "a note");
    let mut command = home.satchel_command(&["chat", "--once", "keep this", "--attach"]);
    run_to_end(command.arg(file).envs(variables.iter().copied()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_names_what_is_wrong_with_the_bucket() {
    let Some(server) = required(S3Server::start().await) else { return };
    let (bucket, port) = (server.bucket(), server.port());
    let usual = [("AWS_ACCESS_KEY_ID", &*server.writer.key_id), ("AWS_SECRET_ACCESS_KEY", &*server.writer.secret)];
    let kept = keep_file(&format!("s3://{bucket}?endpoint={}", server.endpoint()), &usual);
    assert_eq!(kept.exit_code(), Some(0), "{kept:#?}");

    for (url, exit_code, reason) in [
        (server.url_of("other-bucket", "", &server.writer, port), 1, "the bucket `other-bucket` at http://127.0.0.1:"),
        (server.url_of(bucket, "", &server.reader, port), 1, "writing needs the permission s3:PutObject"),
        (server.url_of(bucket, "", &server.writer, 1), 1, "can't be reached; trying again may help"),
        (
            format!("s3://{bucket}?endpoint={}", server.endpoint()),
            1,
            "the credentials are missing: set AWS_ACCESS_KEY_ID",
        ),
        (format!("s3://{bucket}?regoin=eu-west-1"), 2, "after the `?` it takes only `region` and `endpoint`"),
    ] {
        let refused = keep_file(&url, &[]);
        assert_eq!(refused.exit_code(), Some(exit_code), "{url}: {refused:#?}");
        assert!(refused.stderr.contains(reason), "{url}: {refused:#?}");
        for secret in [&server.writer.secret, &server.reader.secret] {
            assert!(!format!("{refused:?}").contains(secret), "{refused:#?}");
        }
    }
}
