//! What is answered to which request.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::exposition::Format;
use super::{Desk, families};
use crate::control::standing::Phase;

/// What an answer looks like.
pub(super) type Answer = Response<Full<Bytes>>;

impl Desk {
    pub(super) async fn answer(&self, request: &Request<Incoming>) -> Answer {
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        match request.uri().path() {
            "/metrics" if is_read => {
                let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
                let format = Format::preferred(accept);
                let text = families::expose(&self.watched, &self.standing.read(), format);
                answer(StatusCode::OK, format.content_type(), text)
            }
            "/healthz" if is_read => plain(StatusCode::OK, "ok\n"),
            "/readyz" if is_read => match self.standing.read().phase {
                Phase::Serving => plain(StatusCode::OK, "ready\n"),
                Phase::Draining | Phase::Stopping => plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
            },
            "/metrics" | "/healthz" | "/readyz" => refused_method("GET, HEAD"),
            _ => plain(StatusCode::NOT_FOUND, "there is /metrics, /healthz, /readyz\n"),
        }
    }
}

fn refused_method(allowed: &'static str) -> Answer {
    let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, &format!("allowed: {allowed}\n"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

fn plain(status: StatusCode, text: &str) -> Answer {
    answer(status, "text/plain; charset=utf-8", text.to_owned())
}

fn answer(status: StatusCode, content_type: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}
