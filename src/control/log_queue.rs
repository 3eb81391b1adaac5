//! The bounded queue between the control plane and whoever reads the log.
//!
//! A pipe that nobody empties blocks its writer. Here that is one thread with nothing else to do; the control plane
//! goes on, signals are obeyed, and lines that find no room or cannot be written are dropped and counted.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::Notify;
use tracing_subscriber::fmt::MakeWriter;

use super::log_output::LogOutput;

/// Bytes of lines that wait at most: some thousand of them.
const QUEUED_BYTES_MAX: usize = 1024 * 1024;
/// How long the last lines may take to be written when the program ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The queue's end that takes lines. Clones are the same queue.
#[derive(Clone)]
pub(super) struct LogQueue(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Lines came, or no more will.
    changed: Condvar,
    /// The writing thread has ended.
    ended: Condvar,
    /// Told when lines were dropped and it can be said, and when a file was reopened.
    news: Notify,
}

/// What the writing thread has to do next.
enum Entry {
    Line(Vec<u8>),
    /// From here on lines go there.
    Output(LogOutput),
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    /// Of the lines among them.
    bytes: usize,
    dropped: u64,
    /// The last line could not be written.
    failing: bool,
    /// The output is to be reopened before the next line.
    reopen: bool,
    /// What came of that.
    reopened: Option<io::Result<()>>,
    closed: bool,
    ended: bool,
}

impl LogQueue {
    /// Starts the thread that writes to `output`.
    ///
    /// # Errors
    ///
    /// When no thread can be had.
    pub(super) fn start(output: LogOutput) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
            ended: Condvar::new(),
            news: Notify::new(),
        });
        let of_thread = Arc::clone(&shared);
        thread::Builder::new().name("log".to_owned()).spawn(move || of_thread.write_to(output))?;
        Ok(Self(shared))
    }

    /// Takes one record, in the form that the output is for.
    pub(super) fn push(&self, line: &[u8]) {
        let mut state = self.0.lock();
        if state.bytes + line.len() > QUEUED_BYTES_MAX {
            state.dropped += 1;
            return;
        }
        state.bytes += line.len();
        state.entries.push_back(Entry::Line(line.to_owned()));
        drop(state);
        self.0.changed.notify_one();
    }

    /// How many lines were dropped since this was last asked.
    pub(super) fn take_dropped(&self) -> u64 {
        std::mem::take(&mut self.0.lock().dropped)
    }

    /// Whether what was dropped can be told, so that the telling is not dropped too.
    pub(super) fn can_tell(&self) -> bool {
        self.0.lock().can_tell()
    }

    /// Has lines go to another output from here on; those that wait go where the ones before them went.
    pub(super) fn exchange(&self, output: LogOutput) {
        self.0.lock().entries.push_back(Entry::Output(output));
        self.0.changed.notify_one();
    }

    /// Has the output reopened before the next line.
    pub(super) fn reopen(&self) {
        self.0.lock().reopen = true;
        self.0.changed.notify_one();
    }

    /// What came of reopening a file, since this was last asked.
    pub(super) fn take_reopened(&self) -> Option<io::Result<()>> {
        self.0.lock().reopened.take()
    }

    /// Waits until lines were dropped and it can be told, or a file was reopened.
    pub(super) async fn news(&self) {
        self.0.news.notified().await;
    }

    /// Waits until everything is written, but not for ever.
    pub(super) fn finish(&self) {
        let mut state = self.0.lock();
        state.closed = true;
        self.0.changed.notify_one();
        // A second result says whether time ran out; nothing is left to do either way.
        drop(self.0.ended.wait_timeout_while(state, FLUSH_TIMEOUT, |state| !state.ended));
    }
}

impl Shared {
    /// A panic of another thread leaves the state whole: it is changed in single steps.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: writes line by line until the queue is closed and empty.
    fn write_to(&self, mut output: LogOutput) {
        let mut state = self.lock();
        loop {
            if std::mem::take(&mut state.reopen) {
                drop(state);
                let reopened = output.reopen();
                state = self.lock();
                if reopened.is_some() {
                    state.reopened = reopened;
                    self.news.notify_one();
                }
                continue;
            }
            let line = match state.entries.pop_front() {
                Some(Entry::Line(line)) => line,
                Some(Entry::Output(next)) => {
                    drop(state);
                    // What cannot be written there is not missed by whoever reads the log from here on.
                    drop(output.flush());
                    output = next;
                    state = self.lock();
                    state.failing = false;
                    continue;
                }
                None if state.closed => break,
                None => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
            };
            drop(state);
            // A log that cannot be written has no place to say so: it is told with what else was dropped, once it can be.
            let written = output.write(&line);
            state = self.lock();
            state.bytes -= line.len();
            state.failing = written.is_err();
            state.dropped += u64::from(state.failing);
            if state.dropped > 0 && state.can_tell() {
                self.news.notify_one();
            }
        }
        drop(output.flush());
        state.ended = true;
        drop(state);
        self.ended.notify_all();
    }
}

impl State {
    /// Whether what was dropped can be told: half of the queue is free, so that the telling does not drop more, and lines
    /// can be written.
    fn can_tell(&self) -> bool {
        self.bytes <= QUEUED_BYTES_MAX / 2 && !self.failing
    }
}

/// Takes one formatted line a call.
pub(super) struct LineWriter<'a>(&'a LogQueue);

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// An output whose reader takes one line at a time, or none.
    struct Pipe(mpsc::SyncSender<Vec<u8>>);

    impl Write for Pipe {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.send(line.to_owned()).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_does_not_read_blocks_nobody_and_is_told_what_it_missed() {
        let (pipe, reader) = mpsc::sync_channel(0);
        let queue = LogQueue::start(LogOutput::stream(Pipe(pipe))).unwrap();
        let line = vec![b'x'; QUEUED_BYTES_MAX / 8];
        for _ in 0..11 {
            queue.push(&line);
        }
        let mut read = 0;
        while !queue.can_tell() {
            assert_eq!(reader.recv().unwrap(), line);
            read += 1;
        }
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(queue.news());
        assert_eq!(queue.take_dropped(), 3);
        assert_eq!(queue.take_dropped(), 0);
        for _ in read..8 {
            assert_eq!(reader.recv().unwrap(), line);
        }
        queue.finish();
    }

    /// A disk that asks whether it is full.
    struct Disk {
        asks: mpsc::SyncSender<()>,
        answers: mpsc::Receiver<bool>,
    }

    impl Write for Disk {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.asks.send(()).map_err(|_| io::ErrorKind::BrokenPipe)?;
            if self.answers.recv().unwrap_or(false) { Ok(line.len()) } else { Err(io::ErrorKind::StorageFull.into()) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_told_once_others_can() {
        let ((asks, asked), (answer, answers)) = (mpsc::sync_channel(0), mpsc::channel());
        let queue = LogQueue::start(LogOutput::stream(Disk { asks, answers })).unwrap();
        (0..3).for_each(|_| queue.push(b"line"));
        for full_before in 0..2 {
            asked.recv().unwrap();
            let dropped = queue.0.lock().dropped;
            assert_eq!((dropped, queue.can_tell()), (full_before, full_before == 0));
            answer.send(false).unwrap();
        }
        asked.recv().unwrap();
        answer.send(true).unwrap();
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(queue.news());
        assert_eq!((queue.take_dropped(), queue.can_tell()), (2, true));
        queue.finish();
    }

    #[test]
    fn lines_go_to_the_output_that_was_the_log_s_when_they_were_logged() {
        let ((old, before), (new, after)) = (mpsc::sync_channel(0), mpsc::sync_channel(100));
        let queue = LogQueue::start(LogOutput::stream(Pipe(old))).unwrap();
        (0..3).for_each(|number: u8| queue.push(&[number]));
        queue.exchange(LogOutput::stream(Pipe(new)));
        (3..6).for_each(|number: u8| queue.push(&[number]));
        // Nothing goes to the new one while lines wait for the old one.
        assert!(after.try_recv().is_err());
        assert_eq!([0; 3].map(|_| before.recv().unwrap()), [[0], [1], [2]]);
        queue.finish();
        assert_eq!(after.try_iter().collect::<Vec<_>>(), [[3], [4], [5]]);
        assert!(before.recv().is_err(), "the old one is closed");
    }

    #[test]
    fn everything_is_written_before_the_end() {
        let (pipe, reader) = mpsc::sync_channel(100);
        let queue = LogQueue::start(LogOutput::stream(Pipe(pipe))).unwrap();
        for number in 0..100_u8 {
            queue.push(&[number]);
        }
        queue.finish();
        assert_eq!(reader.try_iter().map(|line| line[0]).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_reader_that_is_stuck_does_not_hold_up_the_end() {
        let (pipe, reader) = mpsc::sync_channel(0);
        let queue = LogQueue::start(LogOutput::stream(Pipe(pipe))).unwrap();
        queue.push(b"last words");
        queue.finish();
        assert!(!queue.0.lock().ended);
        drop(reader);
    }
}
