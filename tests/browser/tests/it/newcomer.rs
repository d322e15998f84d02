//! What the README tells a newcomer to write on the page does what it says.

use satchel_browser::{browser::Window, page::Page, samples::PNG, server::Server};
use satchel_requirements::required;
use satchel_system::real_binary::workspace_root;

/// Words of an answer to a phrase that did not work.
const FAILURES: [&str; 4] = ["couldn't", "can't", "didn't understand", "does not exist"];

/// The phrases of the first steps: what stands in backticks and has a space, down to the step about scripts.
fn phrases(readme: &str) -> Vec<&str> {
    let steps = readme.split_once("1. **Attach.**").expect("the steps begin with a file").1;
    let steps = steps.split_once("**Compute.**").expect("a step is about scripts").0;
    steps.split('`').skip(1).step_by(2).filter(|phrase| phrase.contains(' ')).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_phrase_of_the_readmes_first_steps_works() {
    let readme = std::fs::read_to_string(workspace_root().join("README.md")).expect("there is a README");
    let phrases = phrases(&readme);
    assert!(phrases.len() > 6, "{phrases:?}");
    let server = Server::start(&[]).await;
    let Some(page) = required(Page::open(&server, Window::WIDE).await) else { return };
    page.upload(&[&server.household().file("beach.png", PNG)]).await;
    for (turns, phrase) in (1..).zip(phrases) {
        page.say(phrase).await;
        let shown = page.answered(turns).await.pop().expect("there is a turn").all;
        assert!(!FAILURES.iter().any(|failure| shown.contains(failure)), "{phrase}: {shown}");
    }
    page.assert_nothing_refused().await;
}
