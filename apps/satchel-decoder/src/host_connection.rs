//! The connection to the host: one thread reads the file, another decodes it, and the process exits when either
//! ends.
//!
//! The reading thread does nothing else, so that it notices when the host is gone even while a decoder loops.

use std::{
    io::{self, BufRead, Read, Write, stdin, stdout},
    panic::{AssertUnwindSafe, catch_unwind},
    process::{ExitCode, exit},
    sync::mpsc::{Receiver, channel},
    thread,
};

use satchel_decoders::{
    protocol::{
        AudioBounds, DocumentSummary, FromWorker, ImageHeader, MAX_CHUNK_BYTES, MAX_REQUEST_BYTES, PROTOCOL_VERSION,
        PageBounds, PageText, RequestedOutput, TextRange, WorkerRequest,
    },
    selection::{SelectedPage, select_pages},
};
use satchel_worker_process::{
    EXIT_UNCONFINED,
    confine::{confine, limit_processor, lower_priority},
};

use crate::{
    audio,
    error::FileDecodeError,
    format,
    image::{self, EncodedImage},
    media,
    page_writer::DecodedDocument,
};

/// The exit code after an invalid request.
pub(crate) const EXIT_PROTOCOL_ERROR: u8 = 2;

/// The stack of a decoder, in bytes. It is only reserved; deep nesting uses it.
const STACK_BYTES: usize = 64 << 20;

/// The most bytes that are taken for a file before they are there.
const INITIAL_BYTES: u64 = 1 << 20;

/// Runs the worker: confines the process and decodes one file.
pub(crate) fn run_worker(memory_bytes: u64) -> ExitCode {
    let (file_tx, file_rx) = channel();
    let (ready_tx, ready_rx) = channel();
    let builder = thread::Builder::new().name("decoder".to_owned()).stack_size(STACK_BYTES);
    let decoder = builder.spawn(move || {
        let _received = ready_tx.send(lower_priority());
        decode_file(&file_rx, memory_bytes);
    });
    if let Err(error) = decoder {
        eprintln!("no thread for the decoder: {error}");
        return ExitCode::from(EXIT_UNCONFINED);
    }
    // A starting thread makes system calls that are refused later.
    let priority_result = ready_rx.recv().unwrap_or(Ok(()));
    if let Err(error) = priority_result.and_then(|()| lower_priority()).and_then(|()| confine(memory_bytes)) {
        eprintln!("{error}");
        return ExitCode::from(EXIT_UNCONFINED);
    }
    send(&FromWorker::Ready { version: PROTOCOL_VERSION });
    let mut input = stdin().lock();
    let received = read_request(&mut input).and_then(|request| {
        limit_processor(request.processor_seconds).map_err(io::Error::other)?;
        Ok((read_content(&mut input, request.bytes)?, request))
    });
    match received {
        Ok((content, request)) => {
            // The other thread runs until the process exits, so sending can't fail.
            let _received = file_tx.send((content, request));
            wait_until_closed(&mut input)
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(EXIT_PROTOCOL_ERROR)
        }
    }
}

/// Waits for the one file, decodes it, sends what was made of it, and exits.
fn decode_file(files: &Receiver<(Vec<u8>, WorkerRequest)>, memory_bytes: u64) {
    let Ok((content, request)) = files.recv() else { return park_forever() };
    match catch_unwind(AssertUnwindSafe(|| send_output(content, &request, memory_bytes))) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => send(&FromWorker::Failed(error.to_failure())),
        // The panic's message is on standard error.
        Err(_) => send(&FromWorker::Failed(FileDecodeError::damaged("its decoder broke down").to_failure())),
    }
    exit(0)
}

fn send_output(content: Vec<u8>, request: &WorkerRequest, memory_bytes: u64) -> Result<(), FileDecodeError> {
    let mime = &request.mime;
    match &request.output {
        RequestedOutput::Text(range) => send_pages(&format::read_document(content, mime, range.max_pages)?, range),
        RequestedOutput::Image(bounds) => send_image(&image::scale_image(content, mime, *bounds, memory_bytes)?),
        RequestedOutput::PageImage(PageBounds { page, image }) => {
            let drawn = format::draw_page(content, mime, *page, image.max_side)?;
            send_image(&image::encode_page(drawn, image.max_bytes)?);
        }
        RequestedOutput::Audio(bounds) => send_sound(content, mime, *bounds)?,
        RequestedOutput::Media => send(&FromWorker::Media(media::measure(content, mime)?)),
    }
    Ok(())
}

/// Sends sound while it is being decoded: nobody could hold two hours of it.
fn send_sound(content: Vec<u8>, mime: &str, bounds: AudioBounds) -> Result<(), FileDecodeError> {
    let mut has_begun = false;
    let samples = audio::decode_sound(content, mime, bounds, |chunk| {
        if !std::mem::replace(&mut has_begun, true) {
            send(&FromWorker::Audio);
        }
        send(&FromWorker::Content(chunk.to_owned()));
    })?;
    send(&FromWorker::AudioEnd { samples });
    Ok(())
}

fn send_image(image: &EncodedImage) {
    let EncodedImage { format, width, height, content } = image;
    let (format, width, height) = (*format, *width, *height);
    send(&FromWorker::Image(ImageHeader { format, width, height, bytes: content.len() as u64 }));
    for chunk in content.chunks(MAX_CHUNK_BYTES) {
        send(&FromWorker::Content(chunk.to_owned()));
    }
}

fn send_pages(document: &DecodedDocument, range: &TextRange) {
    let TextRange { first_page, last_page, offset, max_text_bytes, .. } = *range;
    let selected = select_pages(&document.pages, first_page..=last_page, offset, max_text_bytes);
    for SelectedPage { number, offset, bytes, text } in selected {
        send(&FromWorker::Page(PageText { number, offset, bytes, text: text.to_owned() }));
    }
    let number = |index: usize| u32::try_from(index + 1).unwrap_or(u32::MAX);
    let empty = document.pages.iter().enumerate().filter(|(_, text)| text.is_empty());
    send(&FromWorker::Done(DocumentSummary {
        total_pages: u32::try_from(document.total_pages).unwrap_or(u32::MAX),
        read_pages: u32::try_from(document.pages.len()).unwrap_or(u32::MAX),
        empty_pages: empty.map(|(index, _)| number(index)).collect(),
        is_truncated: document.is_truncated,
    }));
}

/// Reads the request, which is one line.
fn read_request(input: &mut impl BufRead) -> io::Result<WorkerRequest> {
    let mut line = Vec::new();
    input.take(MAX_REQUEST_BYTES as u64).read_until(b'\n', &mut line)?;
    serde_json::from_slice(&line).map_err(io::Error::other)
}

/// Reads the file; an error if it is shorter than announced.
fn read_content(input: &mut impl Read, bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    content.reserve_exact(usize::try_from(bytes.min(INITIAL_BYTES)).unwrap_or_default());
    input.take(bytes).read_to_end(&mut content)?;
    match content.len() as u64 == bytes {
        true => Ok(content),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Waits until the host closes the connection; it has nothing more to send.
fn wait_until_closed(input: &mut impl Read) -> ExitCode {
    match input.read(&mut [0]) {
        Ok(0) => ExitCode::SUCCESS,
        _ => ExitCode::from(EXIT_PROTOCOL_ERROR),
    }
}

fn send(message: &FromWorker) {
    let mut line = serde_json::to_vec(message).expect("a message of the protocol can be written as JSON");
    line.push(b'\n');
    let mut out = stdout().lock();
    if let Err(error) = out.write_all(&line).and_then(|()| out.flush()) {
        eprintln!("the host can't be reached: {error}");
        exit(i32::from(EXIT_PROTOCOL_ERROR));
    }
}

/// Waits for the exit of the process, which the reading thread is about to cause.
fn park_forever() {
    loop {
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_file_is_an_error() {
        let request = r#"{"mime":"a","bytes":4,"processor_seconds":1,"output":{"image":{"max_side":9,"max_bytes":9}}}"#;
        let mut input = io::Cursor::new(format!("{request}\nabc").into_bytes());
        assert_eq!(read_request(&mut input).unwrap().bytes, 4);
        assert!(read_content(&mut input, 4).is_err());
        assert!(read_request(&mut io::Cursor::new(vec![b'x'; 2 * MAX_REQUEST_BYTES])).is_err());
    }
}
