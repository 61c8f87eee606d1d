//! The life of a row told step by step, with the outcome written out: the model could be wrong as well.

use std::collections::BTreeSet;

use checkpoint::Position;
use lease::{Assign, Lease, LeaseKey, Renew, ShardId, Table, TableError, Write};

use super::{position, seize, worker};

/// One row, from the first assignment to its removal.
pub(super) async fn of_a_row<T: Table>(table: &T) {
    let row = Row {
        table,
        key: LeaseKey::from("story"),
    };
    let lease = Lease::new(None, "story".into(), Position::TrimHorizon);
    row.write(Write::Create(Box::new(lease))).await;
    a_is_assigned_and_renews(&row).await;
    a_hands_over_to_b(&row).await;
    a_is_fenced_off(&row).await;
    c_takes_over_from_b(&row).await;
    c_ends_it(&row).await;
}

/// The row of the story, and the writes of it.
struct Row<'a, T> {
    table: &'a T,
    key: LeaseKey,
}

impl<T: Table> Row<'_, T> {
    /// A write that holds; the row afterwards.
    async fn write(&self, write: Write) -> Lease {
        let answer = self.table.write(&write).await;
        answer
            .unwrap_or_else(|error| panic!("{write}: {error:?}"))
            .unwrap_or_else(|| panic!("{write} left no row"))
    }

    /// A write that comes too late; the row as it is.
    async fn refused(&self, write: Write) -> Lease {
        match self.table.write(&write).await {
            Err(TableError::Changed(Some(row))) => *row,
            other => panic!("{write} was not refused with the row: {other:?}"),
        }
    }

    fn assign(&self, to: &str) -> Write {
        Write::Assign(Assign {
            key: self.key.clone(),
            to: worker(to),
            owner: None,
            checkpoint_owner: None,
            counter: 0,
        })
    }

    fn renew(&self, me: &str, counter: u64, checkpoint: &str) -> Renew {
        Renew {
            key: self.key.clone(),
            me: worker(me),
            counter,
            handing_over: false,
            checkpoint: (!checkpoint.is_empty()).then(|| position(checkpoint)),
            children: BTreeSet::new(),
            throughput_kbps: None,
        }
    }

    /// A renewal by who knows that it hands over.
    fn renew_handing_over(&self, me: &str, counter: u64, checkpoint: &str) -> Renew {
        Renew {
            handing_over: true,
            ..self.renew(me, counter, checkpoint)
        }
    }

    fn take(&self, me: &str, owner: &str, seen_counter: u64) -> Write {
        Write::Take {
            seize: seize(&self.key, me, seen_counter, None),
            owner: Some(worker(owner)),
        }
    }

    fn delete(&self) -> Write {
        let key = self.key.clone();
        Write::Delete { key }
    }
}

/// The leader assigns, and a second leader with the same view comes too late. The owner renews; whoever saw it before
/// that takes it for dead in vain (H6).
async fn a_is_assigned_and_renews<T: Table>(story: &Row<'_, T>) {
    let row = story.write(story.assign("a")).await;
    assert_eq!(
        (row.counter, row.owner, row.owner_switches),
        (1, Some(worker("a")), 0)
    );
    assert_eq!(story.refused(story.assign("b")).await.counter, 1);

    let row = story.write(Write::Renew(story.renew("a", 1, "10/1"))).await;
    assert_eq!((row.counter, &row.checkpoint), (2, &position("10/1")));
    story.refused(story.take("b", "a", 1)).await;
}

/// The counter stays, the owner reads on, the heir cannot begin, both know of each other.
async fn a_hands_over_to_b<T: Table>(story: &Row<'_, T>) {
    let hand_off = Write::HandOff {
        key: story.key.clone(),
        from: worker("a"),
        to: worker("b"),
    };
    let row = story.write(hand_off.clone()).await;
    assert_eq!((row.counter, row.reader()), (2, Some(&worker("a"))));
    story.refused(hand_off).await; // it is under way
    let unaware = Write::Renew(story.renew("a", 2, ""));
    assert!(story.refused(unaware).await.handing_over());

    let ready = Write::HeirReady {
        key: story.key.clone(),
        me: worker("b"),
    };
    let row = story.write(ready).await;
    assert!(row.heir_ready && row.counter == 2);
    let renew = Write::Renew(story.renew_handing_over("a", 2, "11/0"));
    let row = story.write(renew).await;
    assert!(row.heir_ready && row.counter == 3);
    let complete = Write::Complete {
        renew: story.renew_handing_over("a", 3, "12/0"),
        to: worker("b"),
    };
    let row = story.write(complete).await;
    assert_eq!((row.counter, row.reader()), (4, Some(&worker("b"))));
    assert_eq!(row.checkpoint, position("12/0"));
    assert!(!row.heir_ready && !row.handing_over());
}

/// Whatever the former owner believes.
async fn a_is_fenced_off<T: Table>(story: &Row<'_, T>) {
    story
        .refused(Write::Renew(story.renew("a", 4, "9/0")))
        .await;
    story
        .refused(Write::Renew(story.renew_handing_over("a", 4, "9/0")))
        .await;
}

/// The heir dies and is replaced; nobody removes a row that is not finished (H32).
async fn c_takes_over_from_b<T: Table>(story: &Row<'_, T>) {
    let row = story.write(story.take("c", "b", 4)).await;
    assert_eq!((row.counter, row.owner_switches), (5, 1));
    story.refused(story.delete()).await;
}

/// Last position, children and release in one write, then the row may go.
async fn c_ends_it<T: Table>(story: &Row<'_, T>) {
    let last = Renew {
        children: ["x", "y"].map(ShardId::from).into(),
        ..story.renew("c", 5, "SHARD_END")
    };
    let row = story.write(Write::Release(last)).await;
    assert!(row.ended() && row.owner.is_none() && row.session.is_none());
    assert_eq!((row.children.len(), row.owner_switches), (2, 0));
    let table = story.table;
    assert_eq!(table.write(&story.delete()).await, Ok(None));
    assert_eq!(
        table.write(&story.delete()).await,
        Err(TableError::Changed(None))
    );
}
