//! The page as a person uses it: by its roles and labels.

use std::path::Path;

use fantoccini::{Locator, elements::Element, key::Key};
use serde_json::{Value, json};

use crate::{
    browser::{Browser, Viewport},
    server::SatchelServer,
    wait::wait_until,
};

/// What all turns show, as `[{ said, files, answer, state }]`.
const TURNS_SCRIPT: &str = "return [...document.querySelectorAll('[role=log] article')].map(turn => ({
    said: [...turn.querySelectorAll('.bubble')].map(bubble => bubble.innerText),
    answer: [...turn.querySelectorAll('.answer .prose')].map(prose => prose.innerText).join('\\n'),
    files: [...turn.querySelectorAll('.answer a[download]')].map(link => link.download),
    sent: [...turn.querySelectorAll('.said a[download]')].map(link => link.download),
    all: turn.innerText,
    state: [...turn.querySelectorAll('.state, .undelivered')].some(line => !line.matches('.state-failed'))
        ? 'sending' : turn.dataset.state ?? 'unsent',
}))";

/// The page in a browser.
#[derive(Debug)]
pub struct Page {
    /// What it is shown in.
    pub browser: Browser,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibleTurn {
    /// What the person wrote.
    pub person_texts: Vec<String>,
    /// The names of the files that the person sent.
    pub sent_files: Vec<String>,
    pub reply: String,
    /// The names of the answer's files.
    pub reply_files: Vec<String>,
    /// Every word of it.
    pub full_text: String,
    /// `waiting`, `running`, `sending`, `done`, or `unsent` for a message that is still on its way.
    pub state: String,
}

impl Page {
    /// Opens the page of a server and logs in.
    ///
    /// # Errors
    /// Where there is no browser.
    ///
    /// # Panics
    /// When it can't be loaded.
    pub async fn open(server: &SatchelServer, viewport: Viewport) -> Result<Self, String> {
        let page = Self { browser: Browser::start(viewport).await? };
        page.visit(&server.login_link()).await;
        wait_until("a conversation is open", async || {
            let address = page.browser.run_script("return location.hash", vec![]).await;
            address.as_str().is_some_and(|address| address.starts_with("#/")).then_some(())
        })
        .await;
        Ok(page)
    }

    /// Opens the page of a server without a login link.
    ///
    /// # Errors
    /// Where there is no browser.
    ///
    /// # Panics
    /// When it can't be loaded.
    pub async fn open_locked(server: &SatchelServer, viewport: Viewport) -> Result<Self, String> {
        let page = Self { browser: Browser::start(viewport).await? };
        page.visit(&server.url("/")).await;
        Ok(page)
    }

    /// Loads an address.
    ///
    /// # Panics
    /// When it can't be loaded.
    pub async fn visit(&self, url: &str) {
        self.browser.tab.goto(url).await.expect("the page can be loaded");
    }

    /// Checks for page errors, then reloads the page.
    ///
    /// # Panics
    /// When something was refused.
    pub async fn reload(&self) {
        self.assert_no_page_errors().await;
        self.browser.tab.refresh().await.expect("the page can be loaded again");
    }

    /// Fails the test when the Content-Security-Policy refused something or a script failed.
    ///
    /// # Panics
    /// When it did.
    pub async fn assert_no_page_errors(&self) {
        assert_eq!(self.browser.page_errors().await, Vec::<String>::new());
    }

    /// Finds what is or becomes visible.
    ///
    /// # Panics
    /// When it doesn't.
    pub async fn find(&self, css: &str) -> Element {
        wait_until(&format!("{css} is seen"), async || {
            let found = self.browser.tab.find(Locator::Css(css)).await.ok()?;
            found.is_displayed().await.ok()?.then_some(found)
        })
        .await
    }

    /// Returns the words of what is or becomes visible. The page may put another element in its place at any time.
    ///
    /// # Panics
    /// When it doesn't.
    pub async fn text(&self, css: &str) -> String {
        wait_until(&format!("{css} can be read"), async || self.find(css).await.text().await.ok()).await
    }

    /// Waits until what is visible has these words in it.
    pub async fn wait_for_text(&self, css: &str, words: &str) {
        let has_words = async || self.text(css).await.contains(words).then_some(());
        wait_until(&format!("{css} says {words}"), has_words).await;
    }

    /// Clicks on what is or becomes visible.
    ///
    /// # Panics
    /// When it can't be clicked.
    pub async fn click_on(&self, css: &str) {
        wait_until(&format!("{css} can be clicked"), async || self.find(css).await.click().await.ok()).await;
    }

    /// Presses keys on what is or becomes visible.
    ///
    /// # Panics
    /// When it takes none.
    pub async fn send_keys(&self, css: &str, keys: &str) {
        wait_until(&format!("{css} takes keys"), async || self.find(css).await.send_keys(keys).await.ok()).await;
    }

    /// Returns whether the page shows an element now, without waiting.
    pub async fn is_visible(&self, css: &str) -> bool {
        match self.browser.tab.find(Locator::Css(css)).await {
            Ok(found) => found.is_displayed().await.unwrap_or(false),
            Err(_) => false,
        }
    }

    /// Clicks a button or link by its label or its words.
    ///
    /// # Panics
    /// When there is none.
    pub async fn click(&self, label: &str) {
        let xpath = format!(
            "//*[self::button or self::a][starts-with(@aria-label, '{label}') or normalize-space() = '{label}']"
        );
        wait_until(&format!("{label} can be clicked"), async || {
            for found in self.browser.tab.find_all(Locator::XPath(&xpath)).await.ok()? {
                if found.is_displayed().await.unwrap_or(false) && found.click().await.is_ok() {
                    return Some(());
                }
            }
            None
        })
        .await;
    }

    /// Types into the message field.
    ///
    /// # Panics
    /// When it can't.
    pub async fn type_text(&self, text: &str) {
        let field = self.find("textarea[aria-label=Message]").await;
        field.send_keys(text).await.expect("the field takes text");
    }

    /// Writes a message and sends it with Enter.
    ///
    /// # Panics
    /// When it can't.
    pub async fn send_message(&self, text: &str) {
        self.type_text(&format!("{text}{}", char::from(Key::Enter))).await;
    }

    /// Chooses files in the file picker.
    ///
    /// # Panics
    /// When it can't.
    pub async fn attach(&self, files: &[&Path]) {
        let picker = self.browser.tab.find(Locator::Css("input[aria-label='Files to attach']")).await;
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        picker.expect("there is a file picker").send_keys(&names.join("\n")).await.expect("it takes files");
    }

    /// Attaches files and waits until they are uploaded.
    pub async fn upload(&self, files: &[&Path]) {
        self.attach(files).await;
        let expected = files.len();
        wait_until("the files are uploaded", async || {
            let script = "return document.querySelectorAll(\"[aria-label='Files that go with the message'] .upload-done\").length";
            (self.browser.run_script(script, vec![]).await == json!(expected)).then_some(())
        })
        .await;
    }

    /// Everything that is shown of the conversation.
    pub async fn turns(&self) -> Vec<VisibleTurn> {
        let result = self.browser.run_script(TURNS_SCRIPT, vec![]).await;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().into_iter().flatten().map(text).collect();
        let turn = |value: &Value| VisibleTurn {
            person_texts: list(&value["said"]),
            sent_files: list(&value["sent"]),
            reply: text(&value["answer"]),
            reply_files: list(&value["files"]),
            full_text: text(&value["all"]),
            state: text(&value["state"]),
        };
        result.as_array().into_iter().flatten().map(turn).collect()
    }

    /// Waits until so many turns are shown, each is done, and nothing is on its way any more.
    pub async fn wait_for_reply(&self, turns: usize) -> Vec<VisibleTurn> {
        wait_until(&format!("{turns} turns are done"), async || {
            let visible = self.turns().await;
            (visible.len() == turns && visible.iter().all(|turn| turn.state == "done")).then_some(visible)
        })
        .await
    }

    /// Waits until the last answer has begun to grow and is not complete.
    pub async fn wait_for_growing_reply(&self) -> VisibleTurn {
        wait_until("an answer grows", async || {
            let last = self.turns().await.pop()?;
            (last.state == "running" && !last.reply.is_empty()).then_some(last)
        })
        .await
    }

    /// Waits for the download of a file that was clicked, and reads it.
    ///
    /// # Panics
    /// When it can't be read.
    pub async fn wait_for_download(&self, name: &str) -> Vec<u8> {
        let path = self.browser.download_directory().join(name);
        // Beside it while it is being written.
        let part = path.with_file_name(format!("{name}.crdownload"));
        wait_until(&format!("{name} is downloaded"), async || (path.is_file() && !part.exists()).then_some(())).await;
        std::fs::read(&path).expect("a download can be read")
    }
}
