//! What is answered to which request.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;

use super::api::Outcome;
use super::changes::{Done, Refusal, Values};
use super::door::Entrance;
use super::exposition::Format;
use super::sessions::{Wish, listener};
use super::{Desk, families};
use crate::control::standing::Phase;

/// What is read.
const READS: [&str; 5] = ["/metrics", "/healthz", "/readyz", "/status", "/sessions"];
/// What changes something.
const CHANGES: [&str; 6] = ["/close", "/drain", "/enable", "/rotate-tickets", "/log-level", "/reload"];

/// What an answer looks like.
pub(super) type Answer = Response<Full<Bytes>>;

impl Desk {
    pub(super) async fn answer(&self, request: &Request<Incoming>, entrance: Entrance) -> Answer {
        let path = request.uri().path();
        let (is_read, is_change) = (READS.contains(&path), CHANGES.contains(&path));
        match *request.method() {
            Method::GET | Method::HEAD if is_read => self.read(request, entrance).await,
            Method::POST if is_change => self.changed(request, entrance).await,
            _ if is_read => refused_method("GET, HEAD"),
            _ if is_change => refused_method("POST"),
            _ => {
                let all = [&READS[..], &CHANGES[..]].concat().join(", ");
                refused(StatusCode::NOT_FOUND, format!("there is {all}"))
            }
        }
    }

    async fn read(&self, request: &Request<Incoming>, entrance: Entrance) -> Answer {
        match request.uri().path() {
            "/metrics" => {
                let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
                let format = Format::preferred(accept);
                let text = families::expose(&self.watched, &self.standing.read(), format);
                answer(StatusCode::OK, format.content_type(), text)
            }
            "/healthz" => plain(StatusCode::OK, "ok\n"),
            "/readyz" => self.readiness(request),
            "/status" => json(StatusCode::OK, &self.status(entrance)),
            _ => self.sessions_page(request).await,
        }
    }

    /// Whether new clients are to be sent here: to one listener, or to any of them.
    fn readiness(&self, request: &Request<Incoming>) -> Answer {
        if self.standing.read().phase != Phase::Serving {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n");
        }
        let running = self.watched.in_force.read();
        let mut asked = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
        let meant: Vec<_> = match (asked.next(), asked.next()) {
            (None, _) => running.listeners.iter().collect(),
            (Some((key, name)), None) if key == "listener" => match listener(&running, &name) {
                Ok((_, running)) => vec![running],
                Err(why) => return refused(StatusCode::BAD_REQUEST, why),
            },
            (Some(_), _) => {
                return refused(StatusCode::BAD_REQUEST, "it takes a listener, or nothing".to_owned());
            }
        };
        let drained = meant.iter().map(|running| &running.ledger).filter(|ledger| self.is_drained(ledger));
        let drained: Vec<_> = drained.map(|ledger| ledger.name()).collect();
        if drained.is_empty() {
            plain(StatusCode::OK, "ready\n")
        } else if drained.len() < meant.len() {
            plain(StatusCode::OK, &format!("ready, but drained: {}\n", drained.join(", ")))
        } else {
            plain(StatusCode::SERVICE_UNAVAILABLE, &format!("drained: {}\n", drained.join(", ")))
        }
    }

    async fn sessions_page(&self, request: &Request<Incoming>) -> Answer {
        let pairs = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
        match Wish::read(pairs, &self.watched.in_force.read(), &self.watched.rosters.all()) {
            Err(why) => refused(StatusCode::BAD_REQUEST, why),
            Ok(wish) => match self.sessions(wish).await {
                Ok(sessions) => json(StatusCode::OK, &sessions),
                Err(why) => refused(StatusCode::SERVICE_UNAVAILABLE, why.to_string()),
            },
        }
    }

    async fn changed(&self, request: &Request<Incoming>, entrance: Entrance) -> Answer {
        if !self.changes_allowed(entrance) {
            let why = match entrance {
                Entrance::Port => {
                    "changes are not allowed over a TCP port, which has no permissions: write a unix socket in admin.listen, \
                     and admin.allow_changes = true"
                }
                Entrance::Socket => {
                    "changes are not allowed: admin.allow_changes = true of the configuration allows them"
                }
            };
            return refused(StatusCode::FORBIDDEN, why.to_owned());
        }
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let values: Values = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        match self.change(path, &values).await {
            None => refused(StatusCode::NOT_FOUND, CHANGES.join(", ")),
            Some(Ok(Done { text, changes })) => {
                // The log of a program that is that far behind has more to drop.
                let _ = self.changes.try_send(format!("{}: {text}", request.uri()));
                json(StatusCode::OK, &Outcome { done: Some(text), changes, ..Outcome::default() })
            }
            Some(Err(Refusal { status, why, refused })) => {
                let refused = refused.into_iter().map(str::to_owned).collect();
                json(status, &Outcome { error: Some(why), refused, ..Outcome::default() })
            }
        }
    }
}

/// The answer to a request that broke off.
pub(super) fn incomplete(error: &hyper::Error) -> Answer {
    refused(StatusCode::BAD_REQUEST, format!("the request is not complete, and nothing was done: {error}"))
}

fn refused_method(allowed: &'static str) -> Answer {
    let mut answer = refused(StatusCode::METHOD_NOT_ALLOWED, format!("it takes {allowed}"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

fn refused(status: StatusCode, why: String) -> Answer {
    json(status, &Outcome { error: Some(why), ..Outcome::default() })
}

fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    // All that is answered here can be written as JSON.
    let text = serde_json::to_string(value).unwrap_or_default();
    answer(status, "application/json", text + "\n")
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
