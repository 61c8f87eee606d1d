//! Rule: the end of a shard. Its children get rows first, then the end is stored, so that nothing is ever lost sight of.

use super::{Leases, Now, writes::Purpose};
use crate::{
    id::LeaseKey,
    lease::Lease,
    renew::{Phase, Tenure},
    shard::Shard,
    sync,
    write::Write,
};

impl Leases {
    /// A consumer has settled the last record of its shard, whatever else was about to happen to the row.
    pub(super) fn shard_ended(
        &mut self,
        key: &LeaseKey,
        tenure: Tenure,
        children: Vec<Shard>,
        now: Now,
    ) {
        let Some(held) = self.consumer_gone(key, tenure) else {
            return;
        };
        let rows: Vec<Lease> = children
            .iter()
            .map(|child| sync::child(&held.lease, child, now.wall))
            .collect();
        held.phase = Phase::Ended {
            todo: rows.clone(),
            children: children.into_iter().map(|child| child.id).collect(),
        };
        for row in rows {
            if self.sight.row(&row.key).is_some() {
                self.child_made(key, &row.key);
            } else {
                self.enqueue(Write::Create(Box::new(row)), Purpose::ChildOf(key.clone()));
            }
        }
    }

    /// A child's row is there.
    pub(super) fn child_made(&mut self, parent: &LeaseKey, child: &LeaseKey) {
        if let Some(held) = self.held.get_mut(parent)
            && let Phase::Ended { todo, .. } = &mut held.phase
        {
            todo.retain(|row| row.key != *child);
        }
    }

    /// Rows of children that are still missing are asked for again.
    pub(super) fn ask_for_children(&mut self) {
        let mut missing = Vec::new();
        for (key, held) in self.held.iter() {
            if let Phase::Ended { todo, .. } = &held.phase {
                missing.extend(todo.iter().map(|row| (key.clone(), row.clone())));
            }
        }
        for (parent, row) in missing {
            self.enqueue(Write::Create(Box::new(row)), Purpose::ChildOf(parent));
        }
    }
}
