//! What this machine can do at best: an append that is on the disk, and a file copied, hashed and sent to itself.

use std::{
    fs::File,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// As much as the product has in hand at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// A file that grows by one page at a time.
pub(crate) struct AppendFile(File);

impl AppendFile {
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let file = File::options().append(true).create(true).open(directory.join("appended"));
        Ok(Self(file.context("failed to open the appended file")?))
    }

    /// The time until one more page is on the disk.
    pub(crate) fn measure_append(&mut self) -> Result<Duration> {
        let started_at = Instant::now();
        self.0.write_all(&[7; 4096])?;
        self.0.sync_all()?;
        Ok(started_at.elapsed())
    }
}

/// The time for reading a file, hashing it twice, and writing it once more until it is on the disk.
pub(crate) fn measure_copy(source: &Path, directory: &Path) -> Result<Duration> {
    let started_at = Instant::now();
    let mut from = File::open(source).context("failed to open the file to copy")?;
    let mut to = File::create(directory.join("copied")).context("failed to create the copy")?;
    let mut hashers = [Sha256::new(), Sha256::new()];
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hashers.iter_mut().for_each(|hasher| hasher.update(&buffer[..read]));
        to.write_all(&buffer[..read])?;
    }
    to.sync_all()?;
    std::hint::black_box(hashers.map(Digest::finalize));
    Ok(started_at.elapsed())
}

/// The time for sending so many bytes to this machine itself.
pub(crate) fn measure_loopback(bytes: u64) -> Result<Duration> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    let reader = std::thread::spawn(move || -> std::io::Result<u64> {
        let (mut accepted, _) = listener.accept()?;
        std::io::copy(&mut accepted, &mut std::io::sink())
    });
    let started_at = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    std::io::copy(&mut std::io::repeat(7).take(bytes), &mut stream)?;
    drop(stream);
    reader.join().ok().context("the reader of the loopback panicked")??;
    Ok(started_at.elapsed())
}
