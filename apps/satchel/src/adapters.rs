//! Opens the adapters that are neither stores nor channels nor models: the guarded HTTP fetcher, speech, and the workers
//! for scripts and documents.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use reqwest::Url;
use satchel_decoders::{CachedDocumentReader, DecoderSettings, DecoderWorkers};
use satchel_http::{AllowedTarget, FetchSettings, HttpFetcher};
use satchel_ports::{AudioDecoder, Blobs, DocumentReader, Fetcher, ImageScaler, MediaMeter, ScriptHost, Speech};
use satchel_speech::{SpeechEngine, SpeechSettings};
use satchel_starlark::{ScriptPoolSettings, WorkerPool};
use secrecy::{ExposeSecret, SecretString};

use crate::{commands::UsageError, config::Config, stores::text_cache};

/// The file name of the script worker.
const SCRIPT_WORKER: &str = "satchel-script";

/// The file name of the decoder worker.
const DECODER_WORKER: &str = "satchel-decoder";

/// What scripts and documents are given to: each has worker processes of its own.
pub struct WorkerHosts {
    /// `None` turns scripts off.
    pub scripts: Option<Arc<dyn ScriptHost>>,
    pub decoders: Decoders,
}

/// What decodes files of others, each in a process of its own.
#[derive(Clone)]
pub struct Decoders {
    pub documents: Arc<dyn DocumentReader>,
    pub images: Arc<dyn ImageScaler>,
    pub audio: Arc<dyn AudioDecoder>,
    pub media: Arc<dyn MediaMeter>,
}

/// Opens what scripts and documents are given to. With `wait_for_programs` both wait for workers that may still be being
/// built; otherwise a missing one turns scripts off, and is reported when a document is read.
#[must_use]
pub fn open_worker_hosts(config: &Config, blobs: &Arc<dyn Blobs>, wait_for_programs: bool) -> WorkerHosts {
    let scripts = match wait_for_programs {
        true => Some(open_pending_script_host(config)),
        false => open_script_host(config),
    };
    WorkerHosts { scripts, decoders: open_decoders(config, blobs, wait_for_programs) }
}

/// Opens what documents and images are given to. With `wait_for_program` they wait for a worker that may still be being
/// built.
#[must_use]
pub fn open_decoders(config: &Config, blobs: &Arc<dyn Blobs>, wait_for_program: bool) -> Decoders {
    let settings = DecoderSettings { wait_for_program, ..decoder_settings(config) };
    if !settings.worker.is_file() {
        let worker = settings.worker.display();
        match wait_for_program {
            true => tracing::info!(%worker, "the decoder worker is not built yet; documents wait for it"),
            false => tracing::info!(%worker, "only text files can be read: the decoder worker was not found"),
        }
    }
    let max_pages = settings.max_pages;
    let workers = Arc::new(DecoderWorkers::new(settings, Arc::clone(blobs)));
    let mut documents =
        CachedDocumentReader::new(Arc::clone(&workers) as _, Arc::clone(blobs), text_cache(config), max_pages);
    if let Some(settings) = config.documents.ocr.settings() {
        documents = documents.with_recognition(settings, Arc::clone(&workers) as _);
    }
    Decoders {
        documents: Arc::new(documents),
        images: Arc::clone(&workers) as _,
        audio: Arc::clone(&workers) as _,
        media: workers,
    }
}

/// How documents are read.
#[must_use]
pub fn decoder_settings(config: &Config) -> DecoderSettings {
    let documents = &config.documents;
    DecoderSettings {
        max_pages: documents.max_pages.0,
        time_limit: documents.timeout.0,
        memory_bytes: documents.memory.0,
        ..DecoderSettings::new(program_path(documents.worker.as_ref().map(|worker| &*worker.0), DECODER_WORKER))
    }
}

#[must_use]
pub fn open_fetcher(config: &Config) -> Arc<dyn Fetcher> {
    let attachments = &config.attachments;
    let settings = FetchSettings {
        allowed: allowed_targets(config).collect(),
        max_redirects: attachments.max_redirects.0,
        timeout: attachments.download_timeout.0,
        ..FetchSettings::default()
    };
    Arc::new(HttpFetcher::new(settings))
}

/// The hosts that people's files may be downloaded from besides the platforms' own.
#[must_use]
pub fn download_hosts(config: &Config) -> Vec<String> {
    let host_name = |allowed: AllowedTarget| match allowed {
        AllowedTarget::Host { name, .. } => Some(name),
        AllowedTarget::Range(_) => None,
    };
    allowed_targets(config).filter_map(host_name).collect()
}

/// The targets outside the public internet that the configuration allows.
fn allowed_targets(config: &Config) -> impl Iterator<Item = AllowedTarget> {
    // Another Discord server than Discord's own also serves its files.
    config.attachments.allow_hosts().chain(config.discord.api_url.as_deref().and_then(host_target))
}

fn host_target(url: &SecretString) -> Option<AllowedTarget> {
    let url = Url::parse(url.expose_secret()).ok()?;
    Some(AllowedTarget::Host { name: url.host_str()?.to_owned(), port: Some(url.port_or_known_default()?) })
}

/// Opens synthesis and transcription; `None` if neither is configured. Nothing is started or requested yet. Recordings
/// for programs that read only WAV go through the decoder.
///
/// # Errors
/// When the settings are invalid.
pub fn open_speech(config: &Config, decoder: Arc<dyn AudioDecoder>) -> Result<Option<Arc<dyn Speech>>, UsageError> {
    let speech = &config.speech;
    let (speak, transcribe) = (speech.speak_engine(), speech.transcribe_engine());
    if speak.is_none() && transcribe.is_none() {
        return Ok(None);
    }
    let settings = SpeechSettings {
        speak,
        transcribe,
        environment: speech.environment.clone(),
        recordings: config.storage.data_dir().join("recordings"),
    };
    let engine = SpeechEngine::new(settings).map_err(|error| UsageError(error.to_string()))?;
    Ok(Some(Arc::new(engine.with_audio_decoder(decoder))))
}

/// Opens the worker pool; `None` if no worker is installed, which turns scripts off.
#[must_use]
pub fn open_script_host(config: &Config) -> Option<Arc<dyn ScriptHost>> {
    let worker = worker_path(config);
    if !worker.is_file() {
        tracing::info!(worker = %worker.display(), "scripts are off: the script worker was not found");
        return None;
    }
    Some(Arc::new(WorkerPool::new(ScriptPoolSettings::new(worker))))
}

/// Opens the worker pool for a worker that may still be being built: until it exists, scripts wait for it.
fn open_pending_script_host(config: &Config) -> Arc<dyn ScriptHost> {
    let worker = worker_path(config);
    if !worker.is_file() {
        tracing::info!(worker = %worker.display(), "the script worker is not built yet; scripts wait for it");
    }
    Arc::new(WorkerPool::new(ScriptPoolSettings { wait_for_program: true, ..ScriptPoolSettings::new(worker) }))
}

/// The path of the script worker, which may not exist.
#[must_use]
pub fn worker_path(config: &Config) -> PathBuf {
    program_path(config.tools.script.worker.as_ref().map(|worker| &*worker.0), SCRIPT_WORKER)
}

/// The configured path of a program, or that of the one that belongs to this program.
fn program_path(configured: Option<&Path>, file_name: &str) -> PathBuf {
    let own = || std::env::current_exe().map(|executable| find_program(&executable, file_name));
    configured.map_or_else(|| own().unwrap_or_else(|_| PathBuf::from(file_name)), Path::to_owned)
}

/// The program beside an executable, or in `../libexec/satchel`, where packages put programs that people don't start.
fn find_program(executable: &Path, file_name: &str) -> PathBuf {
    let beside = executable.with_file_name(file_name);
    let packaged =
        executable.parent().and_then(Path::parent).map(|prefix| prefix.join("libexec/satchel").join(file_name));
    packaged.filter(|packaged| !beside.is_file() && packaged.is_file()).unwrap_or(beside)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use satchel_ports::{FetchRequest, FetcherError, HostPolicy};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;
    use crate::config::{ConfigSources, load_text};

    fn config(yaml: &str) -> Config {
        let directory = tempfile::tempdir().unwrap();
        let sources = ConfigSources { file: None, set: &[], environment: &[], cwd: directory.path() };
        load_text(Path::new("satchel.yaml"), yaml, &sources).unwrap().into_config().unwrap()
    }

    /// A server on this machine that leads from `/` to `/file`; its port.
    async fn server() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = [0; 1024];
                let length = stream.read(&mut head).await.unwrap();
                let answer = match head[..length].starts_with(b"GET /file ") {
                    true => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                    false => "HTTP/1.1 302 Found\r\nLocation: /file\r\nConnection: close\r\n\r\n",
                };
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        port
    }

    #[tokio::test]
    async fn fetch_obeys_configured_hosts_redirects_and_timeout() {
        let port = server().await;
        let url = format!("http://127.0.0.1:{port}/");
        let fetched = async |yaml: &str| {
            let request = FetchRequest { url: url.clone(), hosts: HostPolicy::Public, max_bytes: 1 };
            open_fetcher(&config(yaml)).fetch(&request).await.map(|fetched| fetched.url)
        };
        let there = Ok(format!("{url}file"));
        assert_eq!(fetched("attachments: { allow_hosts: [127.0.0.0/8] }\n").await, there);
        assert_eq!(fetched(&format!("discord: {{ api_url: 'http://127.0.0.1:{port}' }}\n")).await, there);
        for refused in [
            "log: info\n".to_owned(),
            format!("attachments: {{ allow_hosts: [10.0.0.0/8, localhost, '127.0.0.1:{}'] }}\n", port ^ 1),
            "attachments: { allow_hosts: [127.0.0.0/8], max_redirects: 0 }\n".to_owned(),
        ] {
            let failure = fetched(&refused).await;
            assert!(matches!(failure, Err(FetcherError::Rejected { .. })), "{refused}: {failure:?}");
        }
        // It takes the connection and says nothing.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let request = FetchRequest {
            url: format!("http://{}/", silent.local_addr().unwrap()),
            hosts: HostPolicy::Public,
            max_bytes: 1,
        };
        let fetcher = open_fetcher(&config("attachments: { allow_hosts: [127.0.0.0/8], download_timeout: 100ms }\n"));
        let failure = fetcher.fetch(&request).await.map(|fetched| fetched.url);
        assert!(matches!(failure, Err(FetcherError::Retryable { .. })), "{failure:?}");
    }

    #[test]
    fn workers_are_beside_the_program_or_in_libexec() {
        let prefix = tempfile::tempdir().unwrap();
        let executable = prefix.path().join("bin/satchel");
        let (beside, packaged) =
            (prefix.path().join("bin/satchel-script"), prefix.path().join("libexec/satchel/satchel-script"));
        let find = || find_program(&executable, "satchel-script");
        assert_eq!(find(), beside, "what is missing is looked for beside the program");
        for path in [&packaged, &beside] {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
            assert_eq!(&find(), path);
        }
    }

    #[test]
    fn download_hosts_are_those_allowed_by_name() {
        let config = config(
            "attachments: { allow_hosts: [10.0.0.0/8, Files.LAN, 'nas.lan:81'] }\n\
             discord: { api_url: 'http://localhost:8082/x' }\n",
        );
        assert_eq!(download_hosts(&config), ["files.lan", "nas.lan", "localhost"]);
    }
}
