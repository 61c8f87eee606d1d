//! Word: the names in a lease table. Each is a cheap-to-clone string with a meaning.

use std::{borrow::Borrow, fmt, sync::Arc};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as it is spelt in the table.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                $name(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                $name(text.into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// `leaseKey`: the shard id (one stream per table) or `account:stream:epoch:shard id` (several streams).
    LeaseKey
}
name! {
    /// The id of a worker, unique among the processes of one application.
    WorkerId
}
name! {
    /// A shard id as Kinesis spells it, e.g. `shardId-000000000000`.
    ShardId
}
name! {
    /// `account:stream:epoch`, the KCL's serialised stream identifier; only in tables that serve several streams.
    StreamId
}
name! {
    /// A random word that one process run draws at its start and writes into the rows it holds, so that two
    /// processes that were given the same worker id notice each other (hazard H44).
    Session
}

impl LeaseKey {
    /// The key of `shard`'s lease: KCL's rule for single-stream and for multi-stream tables.
    pub fn of(stream: Option<&StreamId>, shard: &ShardId) -> Self {
        match stream {
            None => LeaseKey::from(shard.as_str()),
            Some(stream) => LeaseKey::from(format!("{stream}:{shard}")),
        }
    }
}
