//! Pictures that are shown as copies, and what is shown without a copy.

use satchel_browser::{browser::Viewport, page::Page, server::SatchelServer, wait::wait_until};
use satchel_requirements::required;
use satchel_system::real_binary::decoder_worker;
use serde_json::{Value, json};

/// What each picture loads, and its width in pixels.
const PICTURES_SCRIPT: &str = "return [...document.querySelectorAll('.answer .picture img')]
    .map(image => [new URL(image.src).pathname.split('/').at(-1), image.naturalWidth])";

/// A bitmap of one colour, `width` × 2 pixels, with nothing compressed.
fn bitmap(width: u32) -> Vec<u8> {
    let row = (width * 3).next_multiple_of(4);
    let mut bytes = b"BM".to_vec();
    for number in [54 + row * 2, 0, 54, 40, width, 2, 1 | 24 << 16, 0, row * 2, 2_835, 2_835, 0, 0] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.resize(54 + row as usize * 2, 0x60);
    bytes
}

async fn open_with_bitmap(server: &SatchelServer) -> Result<Page, String> {
    let page = Page::open(server, Viewport::WIDE).await?;
    let picture = server.home().write_file("scan.bmp", bitmap(1_200));
    page.upload(&[&picture]).await;
    page.send_message("send everything").await;
    page.wait_for_reply(1).await;
    Ok(page)
}

#[tokio::test(flavor = "multi_thread")]
async fn picture_that_browsers_cant_show_is_shown_as_a_copy() {
    let _worker = decoder_worker();
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(open_with_bitmap(&server).await) else { return };
    wait_until("the copy is loaded", async || {
        (page.browser.run_script(PICTURES_SCRIPT, vec![]).await == json!([["preview", 960]])).then_some(())
    })
    .await;
    page.click("Open scan.bmp").await;
    page.find("dialog[open] img").await;
    let path = "return new URL(document.querySelector('dialog[open] img').src).pathname";
    let source = page.browser.run_script(path, vec![]).await;
    assert!(source.as_str().is_some_and(|source| source.ends_with("/preview")), "{source}");
    page.assert_no_page_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn picture_without_a_copy_is_a_card() {
    let server = SatchelServer::start(&["documents.worker=/nowhere/satchel-decoder"]).await;
    let Some(page) = required(open_with_bitmap(&server).await) else { return };
    page.find(".answer .card a[download='scan.bmp']").await;
    assert_eq!(page.browser.run_script(PICTURES_SCRIPT, vec![]).await, Value::Array(Vec::new()));
    page.assert_no_page_errors().await;
}
