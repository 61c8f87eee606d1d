//! The values labels can have. Each label is a closed set, so that no input can make the number of series grow.

/// Defines a label's values and how each is spelt.
macro_rules! label {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$value_doc])* $value,)+
        }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &[$name] = &[$($name::$value,)+];

            /// The value as it is spelt in a label.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$value => $text,)+
                }
            }
        }
    };
}

label! {
    /// What taking an aggregate apart came to. The first two count successes.
    Deaggregation {
        /// An aggregate that was taken apart.
        Aggregate = "aggregate",
        /// A user record found in one.
        UserRecord = "user_record",
        /// A record that looks like an aggregate but whose checksum does not fit; delivered as it is.
        Md5Mismatch = "md5_mismatch",
        /// Checksum right, content no aggregate; delivered as it is.
        NotProtobuf = "not_protobuf",
        /// A user record outside the shard's hash range, handled by `hash_range`.
        OutOfRange = "out_of_range",
        /// An aggregate that could be read only in part; the rest is lost as with the KCL.
        Poisoned = "poisoned",
        /// A user record lost so.
        UnreadableUserRecord = "unreadable_user_record",
        /// An aggregate without records.
        Empty = "empty",
    }
}

label! {
    /// How a GetRecords call ended.
    ReadResult {
        /// With records, or none.
        Ok = "ok",
        /// Refused for lack of throughput.
        Throttled = "throttled",
        /// Refused because the iterator was too old; a new one is asked for.
        ExpiredIterator = "expired_iterator",
        /// Any other way.
        Error = "error",
    }
}

label! {
    /// What a write to the lease table is for.
    LeaseOperation {
        /// A row for a new shard.
        Create = "create",
        /// Taking an unowned or expired lease.
        Take = "take",
        /// Keeping a lease, with or without a moved checkpoint.
        Renew = "renew",
        /// Starting work on a lease that was given to this worker.
        Acquire = "acquire",
        /// An heir saying that it is awake.
        HeirReady = "heir_ready",
        /// Ending a hand-over: the last position and the row, to the heir.
        Complete = "complete",
        /// Giving a lease up.
        Release = "release",
        /// Starting a hand-over to a named worker.
        HandOff = "hand_off",
        /// The leader's assignment of a lease.
        Assign = "assign",
        /// Storing that a shard is finished.
        ShardEnd = "shard_end",
        /// Deleting the row of a shard that is gone.
        Delete = "delete",
        /// The leader lock.
        Lead = "lead",
    }
}

label! {
    /// How a write to the lease table ended.
    WriteResult {
        /// Written.
        Ok = "ok",
        /// Refused: the row is no longer as expected.
        Conflict = "conflict",
        /// Refused for lack of throughput.
        Throttled = "throttled",
        /// No answer; it may have been written.
        Unknown = "unknown",
        /// Refused for another reason.
        Error = "error",
    }
}

label! {
    /// A service of AWS.
    Service {
        /// Kinesis Data Streams.
        Kinesis = "kinesis",
        /// DynamoDB.
        DynamoDb = "dynamodb",
    }
}

label! {
    /// Where the worker is in its life.
    WorkerState {
        /// Before the first view of the lease table.
        Starting = "starting",
        /// At work.
        Running = "running",
        /// Told to stop, finishing the batches in hand.
        Draining = "draining",
    }
}
