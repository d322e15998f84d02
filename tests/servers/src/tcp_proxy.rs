//! A way to a server that can be cut and mended while the server keeps what it has.

use std::io;

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// Passes connections on to a server, until they are cut.
#[derive(Debug)]
pub struct TcpProxy {
    port: u16,
    is_cut: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl TcpProxy {
    /// Listens on a free port for connections to a port of this machine.
    ///
    /// # Errors
    /// When no port can be opened.
    pub async fn start(target_port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let (is_cut, state) = watch::channel(false);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // A new connection of a cut way ends before it has said anything.
                if !*state.borrow() {
                    tokio::spawn(forward(client, target_port, state.clone()));
                }
            }
        });
        Ok(Self { port, is_cut, task })
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts all connections, and those that come.
    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Lets connections through again.
    pub fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(mut client: TcpStream, target_port: u16, mut state: watch::Receiver<bool>) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", target_port)).await else { return };
    tokio::select! {
        _ended = copy_bidirectional(&mut client, &mut server) => {}
        // Also when the proxy is gone.
        _cut = state.wait_for(|is_cut| *is_cut) => {}
    }
}
