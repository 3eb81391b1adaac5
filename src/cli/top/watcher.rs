//! The thread that asks ringwall and hears signals, so that keys are obeyed meanwhile.

use std::io;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{Instant, sleep_until};

use super::Happening;
use super::change::Change;
use super::counters::Counters;
use super::model::Sample;
use crate::cli::ctl::{CtlError, query};
use crate::control::admin::api::{Outcome, Sessions};
use crate::control::admin::client::ask_within;
use crate::io::{Address, sys};

/// How long ringwall may take to answer a question before it counts as lost.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long it may take to carry out a change.
const CHANGE_MAX: Duration = Duration::from_secs(35);
/// How soon it is asked again while it does not answer.
const RETRY: Duration = Duration::from_secs(1);
/// How soon the effect of a change is looked at; over less time rates would mean nothing.
const EFFECT: Duration = Duration::from_millis(200);
/// Sessions of a page; the admin listener gives no more.
const PAGE: u32 = 1_000;
/// Pages of a sample at most: what one look may cost the shards.
const PAGES_MAX: usize = 10;
/// Orders that wait at most.
const ORDERS_MAX: usize = 16;

/// The name and value of a query that sessions are to meet.
pub(super) type Narrowing = Option<(&'static str, String)>;

/// What the thread is told.
#[derive(Debug)]
pub(super) enum Order {
    Change(Change),
    Narrow(Narrowing),
}

/// Starts the thread. It tells `tell` what happens until nobody listens.
pub(super) fn start(address: Address, interval: Duration, tell: SyncSender<Happening>) -> io::Result<Sender<Order>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    hear_signals(&runtime, &tell)?;
    let (orders, taken) = mpsc::channel(ORDERS_MAX);
    let watch = move || runtime.block_on(watch(&address, interval, taken, &tell));
    thread::Builder::new().name("watcher".to_owned()).spawn(watch)?;
    Ok(orders)
}

/// Two samples with the interval between them.
///
/// # Errors
/// Why ringwall does not answer.
pub(super) fn twice(address: &Address, interval: Duration) -> Result<(Sample, Sample), CtlError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CtlError::Unreachable(address.clone(), error))?;
    runtime.block_on(async {
        let first = sample(address, &None).await?;
        tokio::time::sleep(interval).await;
        Ok((first, sample(address, &None).await?))
    })
}

fn hear_signals(runtime: &Runtime, tell: &SyncSender<Happening>) -> io::Result<()> {
    let _inside = runtime.enter();
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let mut signals = signal(kind)?;
        let tell = tell.clone();
        runtime.spawn(async move {
            signals.recv().await;
            drop(tell.send(Happening::Ended));
        });
    }
    Ok(())
}

async fn watch(address: &Address, interval: Duration, mut orders: Receiver<Order>, tell: &SyncSender<Happening>) {
    let mut narrowing = None;
    loop {
        let (happening, pause) = match sample(address, &narrowing).await {
            Ok(sample) => (Happening::Sampled(Box::new(sample)), interval),
            Err(why) => (Happening::Lost(why.to_string()), RETRY),
        };
        if tell.send(happening).is_err() {
            return;
        }
        let mut next = Instant::now() + pause;
        loop {
            tokio::select! {
                () = sleep_until(next) => break,
                order = orders.recv() => match order {
                    None => return,
                    Some(Order::Narrow(to)) => narrowing = to,
                    Some(Order::Change(change)) => {
                        let done = carry_out(address, &change).await.map_err(|why| why.to_string());
                        drop(tell.send(Happening::Done(done)));
                    }
                }
            }
            next = next.min(Instant::now() + EFFECT);
        }
    }
}

async fn sample(address: &Address, narrowing: &Narrowing) -> Result<Sample, CtlError> {
    let status = json(&get(address, "/status").await?)?;
    let metrics = get(address, "/metrics").await?;
    let at = sys::now();
    let mut sessions = Vec::new();
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let pairs: Vec<_> = [("limit", PAGE.to_string())]
            .into_iter()
            .chain(after.take().map(|place| ("after", place)))
            .chain(narrowing.clone())
            .collect();
        let page: Sessions = json(&get(address, &query("/sessions", &pairs)).await?)?;
        sessions.extend(page.sessions);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(Sample { at, status, counters: Counters::parse(&metrics), sessions, complete: after.is_none() })
}

async fn get(address: &Address, path: &str) -> Result<String, CtlError> {
    let answer = ask_within(ANSWER_MAX, address, "GET", path).await;
    let answer = answer.map_err(|error| CtlError::Unreachable(address.clone(), error))?;
    if answer.ok { Ok(answer.body) } else { Err(refused(answer.body)) }
}

fn json<T: serde::de::DeserializeOwned>(body: &str) -> Result<T, CtlError> {
    serde_json::from_str(body)
        .map_err(|error| CtlError::Refused(format!("the answer is not that of this version of ringwall: {error}")))
}

async fn carry_out(address: &Address, change: &Change) -> Result<String, CtlError> {
    let answer = ask_within(CHANGE_MAX, address, "POST", &change.path()).await;
    let answer = answer.map_err(|error| CtlError::Unreachable(address.clone(), error))?;
    if !answer.ok {
        return Err(refused(answer.body));
    }
    let outcome: Outcome = json(&answer.body)?;
    Ok(outcome.done.unwrap_or_default())
}

fn refused(body: String) -> CtlError {
    let outcome: Outcome = serde_json::from_str(&body).unwrap_or_default();
    CtlError::Refused(outcome.error.unwrap_or(body))
}
