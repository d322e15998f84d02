//! The worker that decodes one file: a small process that can access only its own pipes (ADR 0020).
//!
//! [`run`] is the entry point. The process starts a thread with a large stack, confines itself, sends that it is ready,
//! and reads the request and the bytes of the file. It exits as soon as the host closes the connection. The protocol
//! is `satchel_decoders::protocol`. For the text of a document, one module reads one family of formats and writes into a
//! `PageWriter`, which bounds the text; `format::read_document` chooses the module by the bytes. `image::scale_image`
//! scales an image, `audio::decode_sound` decodes sound, and `media::measure` measures sound and videos.

mod audio;
mod charset;
mod ebook;
mod error;
mod format;
mod host_connection;
mod html;
mod image;
mod mail;
mod media;
mod office_xml;
mod open_document;
mod package;
mod page_writer;
mod pdf;
mod rich_text;
mod slides;
mod workbook;
mod xml;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod image_fixtures;
#[cfg(test)]
mod sound_fixtures;

use std::{
    ffi::OsString,
    io::{IsTerminal, stdin},
    process::ExitCode,
};

use satchel_decoders::protocol::MEMORY_OPTION;

/// The text for a person who starts it.
const ABOUT: &str = "\
satchel-decoder reads the text of one document, scales one image, or decodes one recording for Satchel, which starts it
when it needs one.

It is not meant to be started by hand: it reads the file on its standard input, writes JSON lines on its standard
output, has no way to files or to the network, and ends when its standard input does.

Options:
  --memory BYTES  limits its memory
  --version       shows its version
  --help          shows this
";

/// The memory of a worker without the option, in bytes.
const DEFAULT_MEMORY_BYTES: u64 = 512 << 20;

/// Runs the command of the arguments.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<String> = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--version"] => println!("satchel-decoder {}", env!("CARGO_PKG_VERSION")),
        ["--help"] => print!("{ABOUT}"),
        [] if stdin().is_terminal() => print!("{ABOUT}"),
        [] => return host_connection::run_worker(DEFAULT_MEMORY_BYTES),
        [option, bytes] if *option == MEMORY_OPTION && bytes.parse::<u64>().is_ok() => {
            return host_connection::run_worker(bytes.parse().unwrap_or(DEFAULT_MEMORY_BYTES));
        }
        _ => {
            eprintln!("satchel-decoder takes no arguments but --memory BYTES, --version and --help");
            return ExitCode::from(host_connection::EXIT_PROTOCOL_ERROR);
        }
    }
    ExitCode::SUCCESS
}
