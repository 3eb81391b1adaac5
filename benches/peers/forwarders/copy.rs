//! What one would write in an afternoon: tokio, rustls, and a copy in both directions.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_rustls::TlsAcceptor;

const BUFFER_BYTES: usize = 16 * 1024;

/// Serves on one thread until it is ended.
pub(super) fn serve(listen: &str, server: &str, folder: &Path) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, accept(listen, server, folder))
}

fn config(folder: &Path) -> ServerConfig {
    let certificate = CertificateDer::from_pem_file(folder.join("server.crt")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).expect("a key");
    let provider = CryptoProvider {
        cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
        ..aws_lc_rs::default_provider()
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])
        .expect("the suite is one of TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("they fit");
    config.ticketer = aws_lc_rs::Ticketer::new().expect("randomness");
    config.send_tls13_tickets = 1;
    config
}

async fn accept(listen: &str, server: &str, folder: &Path) -> io::Result<()> {
    let acceptor = TlsAcceptor::from(Arc::new(config(folder)));
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (client, _) = listener.accept().await?;
        client.set_nodelay(true)?;
        let (acceptor, server) = (acceptor.clone(), server.to_owned());
        tokio::task::spawn_local(async move {
            // A client that breaks off is the client's affair.
            let _ = relay(&acceptor, client, &server).await;
        });
    }
}

async fn relay(acceptor: &TlsAcceptor, client: TcpStream, server: &str) -> io::Result<()> {
    let client = acceptor.accept(client).await?;
    if let Some(path) = server.strip_prefix("unix:") {
        return copy(client, UnixStream::connect(path).await?).await;
    }
    let server = TcpStream::connect(server).await?;
    server.set_nodelay(true)?;
    copy(client, server).await
}

async fn copy(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    mut server: impl AsyncRead + AsyncWrite + Unpin,
) -> io::Result<()> {
    copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER_BYTES, BUFFER_BYTES).await.map(|_| ())
}
