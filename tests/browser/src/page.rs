//! The page as a person uses it: by its roles and labels.

use std::path::Path;

use fantoccini::{Locator, elements::Element, key::Key};
use serde_json::{Value, json};

use crate::{
    browser::{Browser, Window},
    server::Server,
    wait::until,
};

/// What all turns show, as `[{ said, files, answer, state }]`.
const TURNS: &str = "return [...document.querySelectorAll('[role=log] article')].map(turn => ({
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
pub struct ShownTurn {
    /// What the person wrote.
    pub said: Vec<String>,
    /// The names of the files that the person sent.
    pub sent: Vec<String>,
    pub answer: String,
    /// The names of the answer's files.
    pub files: Vec<String>,
    /// Every word of it.
    pub all: String,
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
    pub async fn open(server: &Server, window: Window) -> Result<Self, String> {
        let page = Self { browser: Browser::start(window).await? };
        page.visit(&server.login_link()).await;
        until("a conversation is open", async || {
            let address = page.browser.run("return location.hash", vec![]).await;
            address.as_str().is_some_and(|address| address.starts_with("#/")).then_some(())
        })
        .await;
        Ok(page)
    }

    /// Opens the page of a server as somebody who has no link.
    ///
    /// # Errors
    /// Where there is no browser.
    ///
    /// # Panics
    /// When it can't be loaded.
    pub async fn open_locked(server: &Server, window: Window) -> Result<Self, String> {
        let page = Self { browser: Browser::start(window).await? };
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

    /// Loads the page anew, after a look at what was refused until now.
    ///
    /// # Panics
    /// When something was refused.
    pub async fn reload(&self) {
        self.assert_nothing_refused().await;
        self.browser.tab.refresh().await.expect("the page can be loaded again");
    }

    /// Fails the test when the Content-Security-Policy refused something or a script failed.
    ///
    /// # Panics
    /// When it did.
    pub async fn assert_nothing_refused(&self) {
        assert_eq!(self.browser.refusals().await, Vec::<String>::new());
    }

    /// Finds what is or becomes visible.
    ///
    /// # Panics
    /// When it doesn't.
    pub async fn find(&self, css: &str) -> Element {
        until(&format!("{css} is seen"), async || {
            let found = self.browser.tab.find(Locator::Css(css)).await.ok()?;
            found.is_displayed().await.ok()?.then_some(found)
        })
        .await
    }

    /// Whether something is there to be seen.
    pub async fn shows(&self, css: &str) -> bool {
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
        until(&format!("{label} can be clicked"), async || {
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
    pub async fn write(&self, text: &str) {
        let field = self.find("textarea[aria-label=Message]").await;
        field.send_keys(text).await.expect("the field takes text");
    }

    /// Writes a message and sends it with Enter.
    ///
    /// # Panics
    /// When it can't.
    pub async fn say(&self, text: &str) {
        self.write(&format!("{text}{}", char::from(Key::Enter))).await;
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
        let wanted = files.len();
        until("the files are uploaded", async || {
            let script = "return document.querySelectorAll(\"[aria-label='Files that go with the message'] .upload-done\").length";
            (self.browser.run(script, vec![]).await == json!(wanted)).then_some(())
        })
        .await;
    }

    /// Everything that is shown of the conversation.
    pub async fn turns(&self) -> Vec<ShownTurn> {
        let shown = self.browser.run(TURNS, vec![]).await;
        let words = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().into_iter().flatten().map(words).collect();
        let turn = |value: &Value| ShownTurn {
            said: list(&value["said"]),
            sent: list(&value["sent"]),
            answer: words(&value["answer"]),
            files: list(&value["files"]),
            all: words(&value["all"]),
            state: words(&value["state"]),
        };
        shown.as_array().into_iter().flatten().map(turn).collect()
    }

    /// Waits until so many turns are shown, each is done, and nothing is on its way any more.
    pub async fn answered(&self, turns: usize) -> Vec<ShownTurn> {
        until(&format!("{turns} turns are done"), async || {
            let shown = self.turns().await;
            (shown.len() == turns && shown.iter().all(|turn| turn.state == "done")).then_some(shown)
        })
        .await
    }

    /// Waits until the last answer has begun to grow and is not complete.
    pub async fn growing(&self) -> ShownTurn {
        until("an answer grows", async || {
            let last = self.turns().await.pop()?;
            (last.state == "running" && !last.answer.is_empty()).then_some(last)
        })
        .await
    }

    /// Waits for the download of a file that was clicked, and reads it.
    ///
    /// # Panics
    /// When it can't be read.
    pub async fn downloaded(&self, name: &str) -> Vec<u8> {
        let path = self.browser.downloads().join(name);
        until(&format!("{name} is downloaded"), async || path.is_file().then_some(())).await;
        std::fs::read(&path).expect("a download can be read")
    }
}
