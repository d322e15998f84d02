//! Each part says where it stands, and what failed can be tried again.

use std::path::{Path, PathBuf};

use satchel_browser::{browser::Window, page::Page, samples::bytes, server::Server, wait::until};
use satchel_requirements::required;

#[tokio::test(flavor = "multi_thread")]
async fn failed_part_gives_reason_and_can_be_resent() {
    let server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    let data = bytes(50_000);
    let file = server.household().file("data.bin", &data);
    page.upload(&[&file]).await;
    page.say("what did I send").await;
    page.answered(1).await;
    // The disk loses the bytes for a while.
    let blob = only_file_of(&server.household().data().join("blobs"), data.len());
    let hidden = server.household().root().join("hidden");
    std::fs::rename(&blob, &hidden).expect("a file can be moved");
    page.say("/resend 1").await;
    let turns = page.answered(2).await;
    assert!(turns[1].all.contains("Not delivered") && !turns[1].all.contains("Delivered\n"), "{turns:?}");
    std::fs::rename(&hidden, &blob).expect("a file can be moved");
    page.click("Send again").await;
    let turns = page.answered(3).await;
    assert_eq!(turns[2].said, ["/resend 1"]);
    assert_eq!(turns[2].files, ["data.bin"]);
    assert!(turns[2].all.ends_with("Delivered"), "{turns:?}");
    page.assert_nothing_refused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_upload_resumes_by_itself() {
    let mut server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    let data = bytes(3_000_000);
    let file = server.household().file("slow.bin", &data);
    page.browser.slow_uploads(400_000).await;
    page.attach(&[&file]).await;
    let tray = page.find("[aria-label='Files that go with the message']").await;
    let says = async |words: &str| {
        until(&format!("the tray says {words}"), async || tray.text().await.ok()?.contains(words).then_some(())).await;
    };
    says("/s").await;
    server.kill();
    says("Trying again").await;
    page.browser.full_speed().await;
    server.start_again().await;
    page.find(".upload-done").await;
    page.say("send it back").await;
    page.answered(1).await;
    page.click("Download slow.bin").await;
    assert!(page.downloaded("slow.bin").await == data);
}

/// An upload lives for half an hour; a message that names an older one brings its file once more.
#[tokio::test(flavor = "multi_thread")]
async fn file_of_expired_upload_is_reuploaded() {
    let server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    let file = server.household().file("data.bin", bytes(5_000));
    page.upload(&[&file]).await;
    let expire = "const ask = window.fetch;
        let first = true;
        window.fetch = (path, options) => {
            if (options?.method !== 'POST' || !first) return ask(path, options);
            first = false;
            return Promise.resolve(new Response(JSON.stringify({ code: 'upload_expired', detail: 'It expired.' }), { status: 410 }));
        };";
    page.browser.run(expire, vec![]).await;
    page.say("what did I send").await;
    let turns = page.answered(1).await;
    assert_eq!(turns[0].sent, ["data.bin"]);
    let uploads =
        "return performance.getEntriesByType('resource').filter(entry => entry.name.includes('/uploads?')).length";
    assert_eq!(page.browser.run(uploads, vec![]).await, 2);
    page.assert_nothing_refused().await;
}

/// Ten files go at most three at a time; the server's few connections are left for what else there is.
#[tokio::test(flavor = "multi_thread")]
async fn many_files_are_uploaded_three_at_a_time() {
    let server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    let names: Vec<String> = (0..10).map(|at| format!("{at}.bin")).collect();
    let files: Vec<PathBuf> = names.iter().map(|name| server.household().file(name, bytes(90_000))).collect();
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
    page.browser.run(count, vec![]).await;
    page.browser.slow_uploads(600_000).await;
    page.upload(&files).await;
    assert_eq!(page.browser.run("return window.most", vec![]).await, 3);
    page.say("what did I send").await;
    assert_eq!(page.answered(1).await[0].sent, names);
}

/// The file of this length below a directory.
fn only_file_of(directory: &Path, length: usize) -> PathBuf {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("a directory can be listed").flatten() {
            let about = entry.metadata().expect("an entry can be looked at");
            if about.is_dir() {
                directories.push(entry.path());
            } else if about.len() == length as u64 {
                found.push(entry.path());
            }
        }
    }
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}
