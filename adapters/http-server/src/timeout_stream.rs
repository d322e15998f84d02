//! A stream with a write timeout: a write that makes no progress for too long is an error.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

#[derive(Debug)]
pub(crate) struct WriteTimeoutStream<S> {
    inner: S,
    timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeoutStream<S> {
    /// Wraps a stream; a write fails after `timeout` without progress.
    pub(crate) fn new(inner: S, timeout: Duration) -> Self {
        Self { inner, timeout, timer: None }
    }

    /// Returns the outcome of a write, or an error once it has been pending for too long.
    fn check_timeout<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.timer = None;
            return outcome;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.timeout)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the reader takes nothing")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.check_timeout(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, bytes);
        self.check_timeout(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(cx);
        self.check_timeout(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.check_timeout(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn write_timeout_hits_stalled_reader_not_slow_one() {
        let timeout = Duration::from_secs(60);
        let (near, mut far) = duplex(10);
        let mut near = WriteTimeoutStream::new(near, timeout);
        let slow = tokio::spawn(async move {
            let mut taken = [0; 10];
            for _ in 0..3 {
                sleep(Duration::from_secs(50)).await;
                far.read_exact(&mut taken).await.unwrap();
            }
            far
        });
        near.write_all(&[1; 40]).await.unwrap();
        let asleep = slow.await.unwrap();
        let start = tokio::time::Instant::now();
        let error = near.write_all(&[1; 40]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() >= timeout && start.elapsed() < 2 * timeout);
        drop(asleep);
    }
}
