//! The control plane's side of a takeover: when one is begun, and what has happened meanwhile.

use std::fmt;
use std::io;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::takeover::{News, Predecessor, Successor, Wish};

/// How long the next version may take until it serves. It reads certificates and looks up names of servers, as any start
/// does; whoever waits for it is served meanwhile.
pub const READY_WITHIN: Duration = Duration::from_secs(60);

/// What tells how a successor is doing.
pub type Tell = Box<dyn Fn(News) + Send>;

/// How to be replaced, and what this process replaces.
pub struct Takeover {
    /// The process that serves until this one does.
    pub predecessor: Option<Predecessor>,
    /// Called once the predecessor has left: has all listeners listen as this process's configuration says, also those that
    /// an operator had closed.
    pub listen: Box<dyn Fn() -> Result<(), String>>,
    /// Starts the next version. May not wait. On an error, nothing has been started.
    pub begin: Box<dyn Fn(Tell) -> Result<Successor, String>>,
}

impl Takeover {
    /// Replaces nothing, and is not replaced.
    #[must_use]
    pub fn none() -> Self {
        let begin = |_| Err("this process is not replaced".to_owned());
        Self { predecessor: None, listen: Box::new(|| Ok(())), begin: Box::new(begin) }
    }

    /// Takes the predecessor's place, if there is one; returns what it wishes.
    pub(super) fn succeed(&mut self) -> Result<Wish, String> {
        let Some(predecessor) = self.predecessor.take() else { return Ok(Wish::Serve) };
        let wish = predecessor.take_over().map_err(|error| format!("the takeover has ended: {error}"))?;
        (self.listen)()?;
        Ok(wish)
    }
}

impl fmt::Debug for Takeover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Takeover").field("predecessor", &self.predecessor).finish_non_exhaustive()
    }
}

/// The takeover that is under way, if one is.
pub(super) struct Takeovers {
    /// Of the one that was begun last: what one that was called off still tells is for nobody.
    news: UnboundedReceiver<News>,
    under_way: Option<Successor>,
    /// Files were read again since it was started.
    reloaded: bool,
}

impl Takeovers {
    pub(super) fn new() -> Self {
        let (_, news) = unbounded_channel();
        Self { news, under_way: None, reloaded: false }
    }

    pub(super) const fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    pub(super) fn begin(&mut self, takeover: &Takeover) -> Result<(), String> {
        let (tell, news) = unbounded_channel();
        self.news = news;
        // A control plane that has ended needs not know.
        self.under_way = Some((takeover.begin)(Box::new(move |news| drop(tell.send(news))))?);
        self.reloaded = false;
        Ok(())
    }

    /// What becomes of it. May be given up at any moment.
    pub(super) async fn news(&mut self) -> Option<News> {
        self.news.recv().await
    }

    /// Has the next version read files again as soon as it serves: it may have read them before they changed.
    pub(super) const fn note_reload(&mut self) {
        self.reloaded = true;
    }

    /// Leaves everything to the next version.
    pub(super) fn bequeath(&mut self) -> io::Result<()> {
        let successor = self.under_way.take().ok_or(io::ErrorKind::NotFound)?;
        successor.bequeath(self.reloaded)
    }

    /// Ends what is under way; returns whether something was.
    pub(super) fn call_off(&mut self) -> bool {
        self.under_way.take().is_some()
    }
}
