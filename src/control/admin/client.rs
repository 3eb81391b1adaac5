//! One request to a running ringwall's admin listener, and its answer.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::io::Address;

/// The longest that an answer may take; the admin listener gives up somewhat before.
const TIMEOUT: Duration = Duration::from_secs(35);

/// What was answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Whether it is what was asked for, and not why that is refused.
    pub ok: bool,
    /// What is to be read.
    pub body: String,
}

/// Asks whoever listens at `address`.
///
/// # Errors
/// Why there is no answer.
pub fn ask(address: &Address, method: &str, path: &str) -> io::Result<Answer> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(ask_within(TIMEOUT, address, method, path))
}

/// The same from within a runtime, with another bound on the time it may take.
///
/// # Errors
/// Why there is no answer.
pub async fn ask_within(bound: Duration, address: &Address, method: &str, path: &str) -> io::Result<Answer> {
    let exchange = async {
        match address {
            Address::Tcp(address) => exchange(TcpStream::connect(address).await?, method, path).await,
            Address::Unix(socket) => exchange(UnixStream::connect(socket).await?, method, path).await,
        }
    };
    timeout(bound, exchange).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    method: &str,
    path: &str,
) -> io::Result<Answer> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let request = hyper::Request::builder().method(method).uri(path).header(HOST, "ringwall");
    let request = request.body(Empty::<Bytes>::new()).map_err(io::Error::other)?;
    let answered = async {
        let answer = sender.send_request(request).await?;
        let ok = answer.status().is_success();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok::<_, hyper::Error>(Answer { ok, body: String::from_utf8_lossy(&body).into_owned() })
    };
    tokio::pin!(answered);
    tokio::select! {
        answer = &mut answered => answer,
        // It ends when the answer is complete, or before.
        ended = connection => match ended {
            Ok(()) => answered.await,
            Err(error) => Err(error),
        },
    }
    .map_err(io::Error::other)
}
