//! What the README tells a newcomer to write on the page does what it says.

use satchel_browser::{browser::Viewport, page::Page, samples::PNG, server::SatchelServer};
use satchel_requirements::required;
use satchel_system::real_binary::workspace_root;

/// Words of an answer to a phrase that did not work.
const FAILURE_TEXTS: [&str; 4] = ["couldn't", "can't", "didn't understand", "does not exist"];

/// The phrases of the first steps: what stands in backticks and has a space, down to the step about scripts.
fn find_phrases(readme: &str) -> Vec<&str> {
    let steps = readme.split_once("1. **Attach.**").expect("the steps begin with a file").1;
    let steps = steps.split_once("**Compute.**").expect("a step is about scripts").0;
    steps.split('`').skip(1).step_by(2).filter(|phrase| phrase.contains(' ')).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn readme_first_step_phrases_work() {
    let readme = std::fs::read_to_string(workspace_root().join("README.md")).expect("there is a README");
    let readme_phrases = find_phrases(&readme);
    assert!(readme_phrases.len() > 6, "{readme_phrases:?}");
    let server = SatchelServer::start(&[]).await;
    let Some(page) = required(Page::open(&server, Viewport::WIDE).await) else { return };
    page.upload(&[&server.home().write_file("beach.png", PNG)]).await;
    for (turns, phrase) in (1..).zip(readme_phrases) {
        page.send_message(phrase).await;
        let reply = page.wait_for_reply(turns).await.pop().expect("there is a turn").full_text;
        assert!(!FAILURE_TEXTS.iter().any(|failure| reply.contains(failure)), "{phrase}: {reply}");
    }
    page.assert_no_page_errors().await;
}
