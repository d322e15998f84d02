//! Debian's Chromium behind its driver, one of each for every test.

use std::{
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use satchel_requirements::{
    exclusion::{TestLock, alone},
    find_programs,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http;

/// Command-line flags of Chromium. They disable its own network requests.
const CHROMIUM_FLAGS: [&str; 11] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--lang=en-GB",
];

/// How often the driver is started where its port is taken.
const MAX_DRIVER_STARTS: usize = 5;

/// Notes what the Content-Security-Policy refuses, before anything of a page runs, and what goes wrong in its scripts.
const ERROR_COLLECTOR_SCRIPT: &str = "window.refusals = [];
    addEventListener('securitypolicyviolation', event =>
        refusals.push(`${event.violatedDirective}: ${event.blockedURI} in ${event.sourceFile}:${event.lineNumber}`));
    addEventListener('error', event => event.message && refusals.push(`error: ${event.message}`));
    addEventListener('unhandledrejection', event => refusals.push(`unhandled: ${event.reason}`));";

/// The viewport and the settings that the page can observe.
#[derive(Debug, Clone, Copy)]
pub struct Viewport {
    pub width: u32,
    /// In CSS pixels.
    pub height: u32,
    /// Whether it is touched with a finger.
    pub touch: bool,
    /// Whether the system is set to dark.
    pub dark: bool,
}

impl Viewport {
    pub const WIDE: Self = Self { width: 1280, height: 860, touch: false, dark: false };
    pub const NARROW: Self = Self { width: 360, height: 740, touch: true, dark: false };

    /// Returns the same viewport with the dark colour scheme.
    #[must_use]
    pub const fn in_dark_mode(self) -> Self {
        Self { dark: true, ..self }
    }
}

#[derive(Debug)]
pub struct Browser {
    pub tab: Client,
    driver: Driver,
    session: String,
    profile: TempDir,
    /// A browser is as much as a small machine can carry at once.
    _alone: TestLock,
}

/// The driver's process, the leader of the group that Chromium belongs to.
#[derive(Debug)]
struct Driver {
    process: Child,
    url: String,
}

impl Browser {
    /// Starts one.
    ///
    /// # Errors
    /// Where it isn't installed.
    ///
    /// # Panics
    /// When it is installed and can't be started.
    pub async fn start(viewport: Viewport) -> Result<Self, String> {
        find_programs(&["chromium", "chromedriver"])?;
        let alone = alone("browser");
        let profile = tempfile::tempdir().expect("there is room for a profile");
        let driver = Driver::start();
        let data = format!("--user-data-dir={}", profile.path().join("profile").display());
        let flags: Vec<&str> = CHROMIUM_FLAGS.into_iter().chain([data.as_str()]).collect();
        let capabilities = serde_json::Map::from_iter([("goog:chromeOptions".to_owned(), json!({ "args": flags }))]);
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let tab = builder.capabilities(capabilities).connect(&driver.url).await.expect("the browser starts");
        let session = tab.session_id().await.expect("the driver answers").expect("a session has an id");
        let browser = Self { tab, driver, session, profile, _alone: alone };
        browser
            .send_cdp_command("Page.addScriptToEvaluateOnNewDocument", json!({ "source": ERROR_COLLECTOR_SCRIPT }))
            .await;
        let downloads = browser.download_directory();
        std::fs::create_dir(&downloads).expect("a new directory is empty");
        let allow = json!({ "behavior": "allow", "downloadPath": downloads });
        browser.send_cdp_command("Browser.setDownloadBehavior", allow).await;
        browser.resize(viewport).await;
        Ok(browser)
    }

    pub async fn resize(&self, viewport: Viewport) {
        let Viewport { width, height, touch, dark } = viewport;
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": touch });
        self.send_cdp_command("Emulation.setDeviceMetricsOverride", metrics).await;
        self.send_cdp_command("Emulation.setTouchEmulationEnabled", json!({ "enabled": touch })).await;
        let theme = json!({ "name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" } });
        self.send_cdp_command("Emulation.setEmulatedMedia", json!({ "features": [theme] })).await;
    }

    /// Limits the upload speed.
    pub async fn slow_uploads(&self, bytes_per_second: u32) {
        self.limit_uploads(i64::from(bytes_per_second)).await;
    }

    /// Removes the upload limit.
    pub async fn restore_upload_speed(&self) {
        self.limit_uploads(-1).await;
    }

    async fn limit_uploads(&self, throughput: i64) {
        let conditions =
            json!({ "offline": false, "latency": 0, "downloadThroughput": -1, "uploadThroughput": throughput });
        self.send_cdp_command("Network.enable", json!({})).await;
        self.send_cdp_command("Network.emulateNetworkConditions", conditions).await;
    }

    #[must_use]
    pub fn download_directory(&self) -> std::path::PathBuf {
        self.profile.path().join("downloads")
    }

    /// Sends a Chrome DevTools Protocol command, for what WebDriver has no command.
    ///
    /// # Panics
    /// When the command fails.
    pub async fn send_cdp_command(&self, command: &str, parameters: Value) -> Value {
        let url = format!("{}/session/{}/goog/cdp/execute", self.driver.url, self.session);
        let body = json!({ "cmd": command, "params": parameters });
        let response = http::client().post(url).json(&body).send().await.expect("the driver is there");
        assert!(response.status().is_success(), "{command}: {}", response.text().await.unwrap_or_default());
        response.json::<Value>().await.expect("the driver speaks JSON")["value"].take()
    }

    /// Runs a function's body in the tab.
    ///
    /// # Panics
    /// When it throws.
    pub async fn run_script(&self, script: &str, arguments: Vec<Value>) -> Value {
        self.tab.execute(script, arguments).await.expect("a script of the test doesn't throw")
    }

    /// What the Content-Security-Policy refused and what went wrong in scripts since the page was loaded.
    pub async fn page_errors(&self) -> Vec<String> {
        let result = self.run_script("return window.refusals ?? ['nobody watched']", vec![]).await;
        let found = result.as_array().cloned().unwrap_or_default();
        found.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Writes what the tab shows.
    ///
    /// # Panics
    /// When it can't.
    pub async fn screenshot(&self, path: &Path) {
        let picture = self.tab.screenshot().await.expect("the tab can be drawn");
        std::fs::write(path, picture).expect("the picture can be written");
    }
}

impl Driver {
    fn start() -> Self {
        // It lets the system choose a port for IPv4 and ends where another program has the same one for IPv6.
        let started = (0..MAX_DRIVER_STARTS).find_map(|_| Self::try_start());
        started.expect("chromedriver says on which port it listens")
    }

    /// Returns `None` if it ends at once.
    fn try_start() -> Option<Self> {
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut process = command.spawn().expect("chromedriver starts");
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let port = lines.find_map(|line| {
            let line = line.ok()?;
            let rest = line.split_once("started successfully on port ")?.1;
            Some(rest.trim_end_matches('.').to_owned())
        });
        // Without a port, dropping it waits for its end.
        let driver = Self { process, url: format!("http://127.0.0.1:{}", port.as_deref().unwrap_or_default()) };
        // Whatever else it says must not fill the pipe.
        std::thread::spawn(move || lines.count());
        port.is_some().then_some(driver)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The browser and its many helpers are of the driver's group, and would outlive the driver alone.
        let group = format!("-{}", self.process.id());
        let _ended_already = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _status = self.process.wait();
    }
}
