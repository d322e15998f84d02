//! A PostgreSQL cluster in a directory: created, started, stopped, and watched until nobody uses it any more.

use std::{
    fs::{self, File},
    io::{self, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use satchel_requirements::{find_programs as find_on_path, is_superuser};

use crate::TestCertificate;

/// Where packages put the programs of a version, which is no directory of the path.
const PACKAGED_PROGRAMS: &str = "/usr/lib/postgresql";

/// The user as whom the superuser runs the programs, which refuse to run as root.
const SERVER_USER: &str = "postgres";

/// How long a shared server stays when nobody uses it, in seconds: long enough for the next test to come.
const SHARED_LINGER_SECONDS: u32 = 10;

/// How often another port is tried where somebody else was faster.
const MAX_STARTS: u32 = 5;

/// Waits until nobody holds the lock `users`, then stops the server and removes what is in the directory. `$1` is the directory, `$2`
/// the directory of the programs, `$3` how many seconds it waits for others, and the rest how a program is run.
const WATCHER: &str = r#"
directory=$1; bin=$2; linger=$3; shift 3
exec 9>"$directory/watcher"; flock --nonblock 9 || exit 0
while :; do
    flock "$directory/users" true
    sleep "$linger"
    flock --nonblock "$directory/users" sh -c '
        directory=$1; bin=$2; linger=$3; shift 3
        "$@" "$bin/pg_ctl" stop --pgdata "$directory/server/data" --mode immediate --silent
        rm -rf "$directory/server"
        [ "$linger" -gt 0 ] || rm -rf "$directory"' sh "$directory" "$bin" "$linger" "$@" && exit 0
done
"#;

/// Trusts local roles, except those that must show a password.
const ACCESS: &str = "local all all trust\n\
    host all +must_show_password 127.0.0.1/32 scram-sha-256\n\
    host all all 127.0.0.1/32 trust\n";

/// For tests, which need no data once they have ended. Many of them run at once.
const SETTINGS: &str = "fsync = off\nfull_page_writes = off\nmax_connections = 400\n\
    shared_buffers = 64MB\nlisten_addresses = '127.0.0.1'\nautovacuum = off\n";

/// A cluster in `server` of its directory. Beside it lie the locks, which stay.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    directory: PathBuf,
    bin: PathBuf,
    pub(super) port: u16,
}

/// Finds the directory of the server's programs.
pub(super) fn find_programs() -> Result<PathBuf, String> {
    find_on_path(&["flock", "setsid", "psql"])?;
    if is_superuser() {
        find_on_path(&["runuser"])?;
    }
    let versions = fs::read_dir(PACKAGED_PROGRAMS).map_err(|_| "PostgreSQL's server")?;
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.flatten().map(|entry| entry.path()).filter(|path| path.join("bin/initdb").is_file());
    newest.max_by_key(|path| number(path)).map(|path| path.join("bin")).ok_or_else(|| "PostgreSQL's server".to_owned())
}

impl Cluster {
    /// Joins those who use the shared server, and starts it where it isn't running. Whoever holds the file uses it.
    pub(super) fn join_shared(
        bin: PathBuf,
        prepare: impl Fn(&Self) -> Result<(), String>,
    ) -> Result<(Self, File), String> {
        let name = format!("satchel-tests-postgres-{}", rustix::process::geteuid().as_raw());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).map_err(describe("creating a directory"))?;
        // Behind whoever stops it just now.
        let users = open_lock(&directory.join("users"))?;
        users.lock_shared().map_err(describe("locking"))?;
        let starting = open_lock(&directory.join("starting"))?;
        starting.lock().map_err(describe("locking"))?;
        let mut cluster = Self { directory, bin, port: 0 };
        match cluster.read_port().filter(|port| Self { port: *port, ..cluster.clone() }.is_ready()) {
            Some(port) => cluster.port = port,
            None => {
                cluster.create()?;
                prepare(&cluster)?;
                fs::write(cluster.port_file(), cluster.port.to_string()).map_err(describe("writing the port"))?;
            }
        }
        cluster.watch(SHARED_LINGER_SECONDS)?;
        Ok((cluster, users))
    }

    /// Creates and starts a server that lives until the file is closed.
    pub(super) fn create_private(bin: PathBuf, name: String) -> Result<(Self, File), String> {
        let directory = std::env::temp_dir().join(format!("satchel-tests-postgres-{name}"));
        fs::create_dir_all(&directory).map_err(describe("creating a directory"))?;
        let users = open_lock(&directory.join("users"))?;
        users.lock_shared().map_err(describe("locking"))?;
        let mut cluster = Self { directory, bin, port: 0 };
        cluster.create()?;
        cluster.watch(0)?;
        Ok((cluster, users))
    }

    /// Creates the cluster anew and starts it on a free port.
    fn create(&mut self) -> Result<(), String> {
        let server = self.directory.join("server");
        match fs::remove_dir_all(&server) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(describe("clearing")(error)),
            _ => {}
        }
        fs::create_dir(&server).map_err(describe("creating a directory"))?;
        if is_superuser() {
            let owner = format!("{SERVER_USER}:");
            succeed(Command::new("chown").arg(owner).arg(&server), "chown")?;
        }
        let mut initdb = self.command("initdb");
        initdb.args(["--username", "postgres", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--pgdata"]);
        succeed(initdb.arg(self.data()), "initdb")?;
        fs::write(self.data().join("pg_hba.conf"), ACCESS).map_err(describe("writing the access rules"))?;
        let settings = format!("{SETTINGS}unix_socket_directories = '{}'\n", server.display());
        fs::write(self.data().join("postgresql.auto.conf"), settings).map_err(describe("writing the settings"))?;
        for attempt in 1.. {
            self.port = free_port()?;
            match self.start() {
                Err(_) if attempt < MAX_STARTS => {}
                started => return started,
            }
        }
        Ok(())
    }

    pub(super) fn start(&self) -> Result<(), String> {
        let mut start = self.command("pg_ctl");
        start.args(["start", "--wait", "--silent", "--pgdata"]).arg(self.data());
        start.arg("--log").arg(self.directory.join("server/log")).arg("--options").arg(format!("-p {}", self.port));
        succeed(&mut start, "pg_ctl start")
    }

    /// Puts a certificate and its key where the server looks for them, and turns TLS on at its next start.
    pub(super) fn install_certificate(&self, certificate: &TestCertificate) -> Result<(), String> {
        let data = self.data();
        for (source, name) in [(&certificate.certificate, "server.crt"), (&certificate.key, "server.key")] {
            let target = data.join(name);
            fs::copy(source, &target).map_err(describe("copying a certificate"))?;
            // The server reads no key that others can read.
            fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).map_err(describe("closing a key"))?;
            if is_superuser() {
                succeed(Command::new("chown").arg(format!("{SERVER_USER}:")).arg(&target), "chown")?;
            }
        }
        let settings = File::options().append(true).open(data.join("postgresql.auto.conf"));
        let mut settings = settings.map_err(describe("opening the settings"))?;
        settings.write_all(b"ssl = on\n").map_err(describe("writing the settings"))
    }

    pub(super) fn stop(&self, mode: &str) -> Result<(), String> {
        let mut stop = self.command("pg_ctl");
        stop.args(["stop", "--wait", "--silent", "--mode", mode, "--pgdata"]).arg(self.data());
        succeed(&mut stop, "pg_ctl stop")
    }

    /// Runs statements as the superuser, each by itself.
    pub(super) fn psql(&self, database: &str, sql: &str) -> Result<(), String> {
        let mut psql = Command::new("psql");
        psql.args([
            "--no-psqlrc",
            "--quiet",
            "--username",
            "postgres",
            "--set",
            "ON_ERROR_STOP=1",
            "--dbname",
            database,
        ]);
        psql.arg("--host").arg(self.directory.join("server")).args(["--port", &self.port.to_string()]);
        succeed(psql.args(["--command", sql]), "psql")
    }

    fn is_ready(&self) -> bool {
        let mut ready = self.command("pg_isready");
        ready.arg("--host").arg(self.directory.join("server")).args(["--port", &self.port.to_string()]);
        succeed(&mut ready, "pg_isready").is_ok()
    }

    /// Starts what stops the server once nobody uses it, unless that is running.
    fn watch(&self, linger_seconds: u32) -> Result<(), String> {
        let mut watcher = Command::new("setsid");
        watcher.args(["--fork", "sh", "-c", WATCHER, "sh"]).arg(&self.directory).arg(&self.bin);
        watcher.arg(linger_seconds.to_string()).args(run_as_server_user());
        watcher.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        let status = watcher.status().map_err(describe("starting the watcher"))?;
        if status.success() { Ok(()) } else { Err("PostgreSQL, whose watcher doesn't start".to_owned()) }
    }

    fn command(&self, program: &str) -> Command {
        let path = self.bin.join(program);
        let mut command = match is_superuser() {
            true => {
                let mut command = Command::new("runuser");
                command.args(&run_as_server_user()[1..]).arg(path);
                command
            }
            false => Command::new(path),
        };
        command.current_dir("/");
        command
    }

    fn data(&self) -> PathBuf {
        self.directory.join("server/data")
    }

    fn port_file(&self) -> PathBuf {
        self.directory.join("server/port")
    }

    fn read_port(&self) -> Option<u16> {
        fs::read_to_string(self.port_file()).ok()?.parse().ok()
    }
}

/// What stands before a program that mustn't run as root.
fn run_as_server_user() -> &'static [&'static str] {
    if is_superuser() { &["runuser", "--user", SERVER_USER, "--"] } else { &["env"] }
}

fn open_lock(path: &Path) -> Result<File, String> {
    File::options().write(true).create(true).truncate(false).open(path).map_err(describe("opening a lock"))
}

fn free_port() -> Result<u16, String> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(describe("finding a port"))
}

/// Runs a program to its end. Its output goes to a file, since a server that it starts would keep a pipe open.
fn succeed(command: &mut Command, name: &str) -> Result<(), String> {
    let output = tempfile::tempfile().map_err(describe("creating a file"))?;
    let copy = || output.try_clone().map_err(describe("copying a file"));
    let status = command.stdin(Stdio::null()).stdout(copy()?).stderr(copy()?).status();
    let status = status.map_err(describe(name))?;
    if status.success() {
        return Ok(());
    }
    let text = read_from_start(output).unwrap_or_default();
    Err(format!("PostgreSQL, but {name} failed: {}", text.trim()))
}

fn read_from_start(mut file: File) -> io::Result<String> {
    io::Seek::rewind(&mut file)?;
    io::read_to_string(file)
}

fn describe(what: &str) -> impl Fn(io::Error) -> String {
    move |error| format!("PostgreSQL, but {what} failed: {error}")
}
