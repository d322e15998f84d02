//! What the tests stand on: workers that are shell scripts, a world that remembers, and a look at the processes.

use std::{
    io::Write,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures::StreamExt;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use satchel_domain::{ChannelName, ConversationId, WorkShare};
use satchel_ports::{
    ByteStream, HostFunctions, ScriptError, ScriptEvaluation, ScriptHost, ScriptRequest,
    script_host::{FunctionCall, NewScriptFile},
};
use satchel_starlark::{ScriptPoolSettings, WorkerPool};
use satchel_wait::wait_until;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// What every stand-in knows. Each notes its number when it starts, and loops for ever for so many seconds only, should
/// nobody end it.
const PRELUDE: &str = r#"#!/bin/sh
ulimit -t 60
PATH=/usr/local/bin:/usr/bin:/bin
HERE=${0%/*}
echo $$ >> "$HERE/numbers"
say() { printf '%s\n' "$1"; }
hear() { IFS= read -r heard || exit 0; }
ready() { say '{"ready":{"version":2}}'; }
begin() { ready; hear; }
call() { say "{\"call\":{\"function\":\"$1\",\"positional\":[],\"named\":{}}}"; }
create() { say "{\"create\":{\"filename\":\"$1\",\"description\":\"\",\"mime_type\":\"text/plain\",\"visibility\":\"deliver\"}}"; }
chunk() { say "{\"chunk\":{\"text\":\"$1\"}}"; }
end() { say '"end"'; }
done_with() { say "{\"done\":$1}"; }
hang() { exec sleep 1000; }
"#;

/// A worker that is a shell script, in a directory of its own.
pub(crate) struct StandIn {
    directory: TempDir,
}

impl StandIn {
    pub(crate) fn new(body: &str) -> Self {
        let stand_in = Self { directory: tempfile::tempdir().unwrap() };
        // Another process writes it: were it open for writing here, a worker that is started meanwhile by another test
        // would inherit it open, and a file that is open for writing can't be run.
        let mut writing = Command::new("sh")
            .args(["-c", "cat > \"$1\" && chmod 755 \"$1\"", "sh"])
            .arg(stand_in.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        writing.stdin.take().unwrap().write_all(format!("{PRELUDE}{body}\n").as_bytes()).unwrap();
        assert!(writing.wait().unwrap().success());
        stand_in
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("worker")
    }

    pub(crate) fn settings(&self) -> ScriptPoolSettings {
        ScriptPoolSettings { max_warm: 0, ..ScriptPoolSettings::new(self.path()) }
    }

    pub(crate) fn pool(&self) -> WorkerPool {
        WorkerPool::new(self.settings())
    }

    /// A file that the stand-in writes.
    pub(crate) fn noted(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.directory.path().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Kills a worker that was started from it, and nothing else: what a file says may be anyone's number by now.
    pub(crate) fn kill(&self, number: u32) {
        let pid = Pid::from_raw(i32::try_from(number).unwrap()).unwrap();
        // Held before it is looked at, so that the number doesn't become another's in between.
        let held = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap();
        let parent = stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap();
        let command = std::fs::read(format!("/proc/{number}/cmdline")).unwrap();
        let is_from_it = command.split(|byte| *byte == 0).any(|word| word == self.path().as_os_str().as_bytes());
        assert!(parent == std::process::id().to_string() && is_from_it, "{number} is no worker of this test: {stat}");
        pidfd_send_signal(held, Signal::KILL).unwrap();
    }

    /// The processes that were started from it.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.noted("numbers").iter().map(|line| line.parse().unwrap()).collect()
    }
}

pub(crate) fn real_worker() -> PathBuf {
    let beside = || {
        let test = std::env::current_exe().unwrap();
        test.ancestors().nth(2).unwrap().join("satchel-script")
    };
    let worker = std::env::var_os("SATCHEL_SCRIPT_WORKER").map_or_else(beside, PathBuf::from);
    assert!(
        worker.is_file(),
        "the script worker is missing at {}: build it with `cargo xtask worker`, or name it in SATCHEL_SCRIPT_WORKER",
        worker.display()
    );
    worker
}

/// A file, how many bytes of it came, and how its stream ended.
pub(crate) type Stored = (NewScriptFile, usize, Result<(), String>);

/// A world that remembers what it was asked.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) asked: Mutex<Vec<FunctionCall>>,
    /// Files whose streams have ended.
    pub(crate) files: Mutex<Vec<Stored>>,
    /// Calls that were dropped before they had an answer.
    pub(crate) given_up: AtomicUsize,
    pub(crate) under_way: AtomicUsize,
    pub(crate) most_under_way: AtomicUsize,
    /// How many calls at once `wait` waits for, as far as they come within some seconds.
    pub(crate) waits_for: usize,
}

struct UnderWay<'a> {
    world: &'a World,
    ended: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.world.under_way.fetch_sub(1, Ordering::SeqCst);
        if !self.ended {
            self.world.given_up.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl World {
    fn begin(&self) -> UnderWay<'_> {
        let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_under_way.fetch_max(now, Ordering::SeqCst);
        UnderWay { world: self, ended: false }
    }

    pub(crate) fn names_asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|call| call.function.clone()).collect()
    }
}

pub(crate) fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(0), |inner, _| json!([inner]))
}

#[async_trait]
impl HostFunctions for World {
    fn functions(&self) -> Vec<String> {
        ["echo", "refuse", "hang", "wait", "large", "deep", "chatter"].map(str::to_owned).to_vec()
    }

    async fn call(&self, call: FunctionCall) -> Result<Value, String> {
        let mut under_way = self.begin();
        self.asked.lock().unwrap().push(call.clone());
        let answer = match call.function.as_str() {
            "echo" => Ok(json!({ "positional": call.positional, "named": call.named })),
            "refuse" => Err("the list is closed".to_owned()),
            "chatter" => Err("й".repeat(1 << 20)),
            "large" => Ok(json!("x".repeat(9 << 20))),
            "deep" => Ok(nested(65)),
            "hang" => std::future::pending().await,
            "wait" => {
                // Long enough for more calls than are allowed to meet it.
                tokio::time::sleep(Duration::from_millis(30)).await;
                let are_there = || self.most_under_way.load(Ordering::SeqCst) >= self.waits_for;
                let begun = Instant::now();
                while !are_there() && begun.elapsed() < Duration::from_secs(5) {
                    // Polls: the counter announces nothing.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Ok(Value::Null)
            }
            other => panic!("{other} was never offered"),
        };
        under_way.ended = true;
        answer
    }

    async fn create(&self, file: NewScriptFile, mut content: ByteStream) -> Result<Value, String> {
        let mut under_way = self.begin();
        if file.filename == "refused.txt" {
            under_way.ended = true;
            return Err("there are too many files".to_owned());
        }
        let (mut bytes, mut ended) = (0, Ok(()));
        while let Some(piece) = content.next().await {
            match piece {
                Ok(piece) => bytes += piece.len(),
                Err(error) => ended = Err(error.to_string()),
            }
        }
        if file.filename == "hangs.txt" {
            std::future::pending::<()>().await;
        }
        under_way.ended = true;
        self.files.lock().unwrap().push((file, bytes, ended.clone()));
        ended.map(|()| json!({ "bytes": bytes }))
    }
}

/// A share of a conversation alone.
pub(crate) fn work_share(key: &str) -> WorkShare {
    WorkShare::from_conversation(ConversationId::new(ChannelName::new("web").unwrap(), key).unwrap())
}

pub(crate) fn script(source: &str) -> ScriptRequest {
    ScriptRequest {
        source: source.to_owned(),
        globals: Map::new(),
        work_share: work_share("a"),
        time_limit: Duration::from_secs(20),
    }
}

pub(crate) fn limited(milliseconds: u64) -> ScriptRequest {
    ScriptRequest { time_limit: Duration::from_millis(milliseconds), ..script("") }
}

/// Runs one script by a worker that does this.
pub(crate) async fn by(body: &str, script: &ScriptRequest, world: &World) -> ScriptEvaluation {
    let stand_in = StandIn::new(body);
    let evaluation = stand_in.pool().run(script, world, &CancellationToken::new()).await;
    gone(&stand_in.numbers()).await;
    evaluation
}

/// The value of a script, which must have one.
pub(crate) fn value(evaluation: &ScriptEvaluation) -> &Value {
    evaluation.value.as_ref().unwrap()
}

/// Why a script has none, in words.
pub(crate) fn failure(evaluation: &ScriptEvaluation) -> String {
    evaluation.value.as_ref().unwrap_err().to_string()
}

pub(crate) fn timed_out(milliseconds: u64) -> Result<Value, ScriptError> {
    Err(ScriptError::TimedOut { after: Duration::from_millis(milliseconds) })
}

pub(crate) fn exists(number: u32) -> bool {
    Path::new("/proc").join(number.to_string()).exists()
}

/// Waits until none of these processes is there any more, not even one that nobody has waited for.
pub(crate) async fn gone(numbers: &[u32]) {
    assert!(!numbers.is_empty());
    wait_until("no process is left", || !numbers.iter().any(|number| exists(*number))).await;
}
