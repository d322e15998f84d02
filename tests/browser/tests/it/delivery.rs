//! Each part shows its delivery state, and a failed one can be sent again.

use std::path::{Path, PathBuf};

use satchel_browser::{browser::Viewport, page::Page, samples::bytes, server::SatchelServer};
use satchel_requirements::required;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn failed_part_gives_reason_and_can_be_resent() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let data = bytes(50_000);
    let file = server.home().write_file("data.bin", &data);
    page.upload(&[&file]).await;
    page.send_message("what did I send").await;
    page.wait_for_reply(1).await;
    // The disk loses the bytes for a while.
    let blob = find_only_file(&server.home().data_directory().join("blobs"), data.len());
    let hidden = server.home().root().join("hidden");
    std::fs::rename(&blob, &hidden).expect("a file can be moved");
    page.send_message("/resend 1").await;
    let turns = page.wait_for_reply(2).await;
    assert!(turns[1].full_text.contains("Not delivered") && !turns[1].full_text.contains("Delivered\n"), "{turns:?}");
    std::fs::rename(&hidden, &blob).expect("a file can be moved");
    page.click("Send again").await;
    let turns = page.wait_for_reply(3).await;
    assert_eq!(turns[2].person_texts, ["/resend 1"]);
    assert_eq!(turns[2].reply_files, ["data.bin"]);
    // What is delivered as usual needs no words.
    assert!(!turns[2].full_text.contains("Delivered"), "{turns:?}");
    page.assert_no_page_errors().await;
}

/// What is usual needs no words; who has read that something is late also reads that it has arrived.
#[tokio::test(flavor = "multi_thread")]
async fn arrival_is_reported_only_after_trouble() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let is_reported = "const [states] = arguments;
        return import('/page/turn.js').then(({ createTurnView }) => {
            const view = createTurnView({});
            const part = { id: 'p', kind: 'text', html: '<p>Hello</p>', text: 'Hello', files: [], at: 1000 };
            const turn = { id: 't', state: 'done', ending: 'done', messages: [], tools: [] };
            for (const state of states) view.update({ ...turn, parts: [{ ...part, state }] });
            return view.root.textContent.includes('Delivered');
        });";
    for (states, expected) in [
        (json!(["pending", "sending", "sent"]), false),
        (json!(["sent"]), false),
        (json!(["sending", "waiting", "sending", "sent"]), true),
        (json!(["in_doubt", "sent"]), true),
        (json!(["in_doubt", "failed"]), false),
    ] {
        assert_eq!(page.browser.run_script(is_reported, vec![states.clone()]).await, expected, "{states}");
    }
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_upload_resumes_by_itself() {
    let mut server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let data = bytes(3_000_000);
    let file = server.home().write_file("slow.bin", &data);
    page.browser.slow_uploads(400_000).await;
    page.attach(&[&file]).await;
    let tray = "[aria-label='Files that go with the message']";
    page.wait_for_text(tray, "/s").await;
    server.kill();
    page.wait_for_text(tray, "Trying again").await;
    page.browser.restore_upload_speed().await;
    server.restart().await;
    page.find(".upload-done").await;
    page.send_message("send it back").await;
    page.wait_for_reply(1).await;
    page.click("Download slow.bin").await;
    assert!(page.wait_for_download("slow.bin").await == data);
}

/// An upload lives for half an hour; a message that names an older one brings its file once more.
#[tokio::test(flavor = "multi_thread")]
async fn file_of_expired_upload_is_reuploaded() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let file = server.home().write_file("data.bin", bytes(5_000));
    page.upload(&[&file]).await;
    let expire = "const ask = window.fetch;
        let first = true;
        window.fetch = (path, options) => {
            if (options?.method !== 'POST' || !first) return ask(path, options);
            first = false;
            return Promise.resolve(new Response(JSON.stringify({ code: 'upload_expired', detail: 'It expired.' }), { status: 410 }));
        };";
    page.browser.run_script(expire, vec![]).await;
    page.send_message("what did I send").await;
    let turns = page.wait_for_reply(1).await;
    assert_eq!(turns[0].sent_files, ["data.bin"]);
    let uploads =
        "return performance.getEntriesByType('resource').filter(entry => entry.name.includes('/uploads?')).length";
    assert_eq!(page.browser.run_script(uploads, vec![]).await, 2);
    page.assert_no_page_errors().await;
}

/// Ten files go at most three at a time; the server's few connections are left for what else there is.
#[tokio::test(flavor = "multi_thread")]
async fn many_files_are_uploaded_three_at_a_time() {
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    let names: Vec<String> = (0..10).map(|at| format!("{at}.bin")).collect();
    let files: Vec<PathBuf> = names.iter().map(|name| server.home().write_file(name, bytes(90_000))).collect();
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    page.find("textarea").await;
    let count = "window.most = 0; window.running = 0;
        const send = XMLHttpRequest.prototype.send;
        XMLHttpRequest.prototype.send = function (body) {
            running += 1;
            most = Math.max(most, running);
            this.addEventListener('readystatechange', () => this.readyState === 4 && (running -= 1));
            send.call(this, body);
        };";
    page.browser.run_script(count, vec![]).await;
    page.browser.slow_uploads(600_000).await;
    page.upload(&files).await;
    assert_eq!(page.browser.run_script("return window.most", vec![]).await, 3);
    page.send_message("what did I send").await;
    assert_eq!(page.wait_for_reply(1).await[0].sent_files, names);
}

/// The file of this length below a directory.
pub(crate) fn find_only_file(directory: &Path, length: usize) -> PathBuf {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("a directory can be listed").flatten() {
            let metadata = entry.metadata().expect("an entry can be looked at");
            if metadata.is_dir() {
                directories.push(entry.path());
            } else if metadata.len() == length as u64 {
                found.push(entry.path());
            }
        }
    }
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}
