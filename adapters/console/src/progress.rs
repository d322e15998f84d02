//! Progress bars of long copies, on the status line and on terminals only.

use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
};

use futures::StreamExt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use satchel_domain::Filename;
use satchel_ports::ByteStream;

use crate::Screen;

/// Smaller files are copied before anyone could read a progress bar.
const MIN_PROGRESS_BAR_BYTES: u64 = 8 * 1024 * 1024;

/// Shows the progress of a stream if it is long and the screen is a terminal.
pub(crate) fn with_progress(
    content: ByteStream,
    screen: &Arc<Screen>,
    filename: &Filename,
    bytes: Option<u64>,
) -> ByteStream {
    let Some(bytes) = bytes.filter(|bytes| *bytes >= MIN_PROGRESS_BAR_BYTES && screen.style().terminal) else {
        return content;
    };
    let line = ProgressLine { screen: Arc::clone(screen), text: Mutex::default() };
    let style = ProgressStyle::with_template(
        "  {msg} {bar:24} {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}",
    )
    .expect("the template is a constant and well formed");
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::term_like_with_hz(Box::new(line), 10))
        .with_style(style)
        .with_message(filename.to_string());
    let bar = ClearOnDrop(bar);
    Box::pin(content.inspect(move |chunk| {
        if let Ok(chunk) = chunk {
            bar.0.inc(chunk.len() as u64);
        }
    }))
}

/// Removes the bar from the screen when the stream is done or dropped.
struct ClearOnDrop(ProgressBar);

impl Drop for ClearOnDrop {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The one line that indicatif may draw on. It ignores cursor movements: only the screen moves the cursor.
struct ProgressLine {
    screen: Arc<Screen>,
    text: Mutex<String>,
}

impl ProgressLine {
    fn update_text(&self, update: impl FnOnce(&mut String)) -> io::Result<()> {
        update(&mut self.text.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }
}

impl TermLike for ProgressLine {
    fn width(&self) -> u16 {
        u16::try_from(self.screen.style().width.unwrap_or(80)).unwrap_or(u16::MAX)
    }

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        self.update_text(|text| line.clone_into(text))
    }

    fn write_str(&self, more: &str) -> io::Result<()> {
        self.update_text(|text| text.push_str(more))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.update_text(String::clear)
    }

    fn flush(&self) -> io::Result<()> {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner).trim_end().to_owned();
        self.screen.set_status_line(Some(text.as_str()).filter(|text| !text.is_empty()));
        Ok(())
    }
}

impl fmt::Debug for ProgressLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressLine").finish_non_exhaustive()
    }
}
