//! Families of commands, whose times are told apart.

use crate::labels::labelled;
use crate::metrics::FAMILIES_MAX;

const _: () = assert!(Family::LABELS.len() <= FAMILIES_MAX, "metrics has room for every family");

labelled! {
    /// What a command is about: the groups that servers name in COMMAND DOCS, and one more.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Family {
        /// Bits of strings.
        Bitmap = "bitmap",
        /// Whatever may wait in the server until something comes: how long that takes is up to other clients.
        Blocking = "blocking",
        /// The cluster and its slots.
        Cluster = "cluster",
        /// The connection itself.
        Connection = "connection",
        /// Keys of any type.
        Generic = "generic",
        /// Places on earth.
        Geo = "geo",
        /// Hashes.
        Hash = "hash",
        /// Estimates of how many there are.
        HyperLogLog = "hyperloglog",
        /// Lists.
        List = "list",
        /// Messages to whoever has subscribed.
        PubSub = "pubsub",
        /// Scripts and functions.
        Scripting = "scripting",
        /// The server itself.
        Server = "server",
        /// Sets.
        Set = "set",
        /// Sets in the order of scores.
        SortedSet = "sorted_set",
        /// Streams.
        Stream = "stream",
        /// Strings.
        String = "string",
        /// Transactions, with the commands in them: those are only queued.
        Transactions = "transactions",
    }
}
