//! A way to a server that can be cut, blocked and mended while the server keeps what it has.

use std::{io, pin::pin};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// Passes connections on to a server, until they are cut or blocked.
#[derive(Debug)]
pub struct TcpProxy {
    port: u16,
    state: watch::Sender<ProxyState>,
    task: JoinHandle<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProxyState {
    Open,
    /// Connections stand and nothing passes, as where a network is divided.
    Blocked,
    /// Connections end.
    Cut,
}

impl TcpProxy {
    /// Listens on a free port for connections to a port of this machine.
    ///
    /// # Errors
    /// When no port can be opened.
    pub async fn start(target_port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let (sender, state) = watch::channel(ProxyState::Open);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, target_port, state.clone()));
            }
        });
        Ok(Self { port, state: sender, task })
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts all connections, and those that come before they have said anything.
    pub fn cut(&self) {
        self.state.send_replace(ProxyState::Cut);
    }

    /// Lets nothing pass in either direction. Nobody is told: what is sent waits, and so do new connections.
    pub fn block(&self) {
        self.state.send_replace(ProxyState::Blocked);
    }

    /// Lets connections through again. What waited passes.
    pub fn mend(&self) {
        self.state.send_replace(ProxyState::Open);
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(mut client: TcpStream, target_port: u16, mut state: watch::Receiver<ProxyState>) {
    let mut copying = pin!(async {
        let mut server = TcpStream::connect(("127.0.0.1", target_port)).await?;
        copy_bidirectional(&mut client, &mut server).await
    });
    loop {
        let current = *state.borrow_and_update();
        tokio::select! {
            _ended = &mut copying, if current == ProxyState::Open => return,
            changed = state.changed(), if current != ProxyState::Cut => {
                // Also when the proxy is gone.
                if changed.is_err() {
                    return;
                }
            }
            else => return,
        }
    }
}
