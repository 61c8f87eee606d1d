"""The lease table, look by look, against the workers' files."""

from bisect import bisect_left
from collections import defaultdict, deque

NOTHING = (-1, 0)  # before every position


class Stored:
    """What must hold between stored positions and deliveries while everything is running.

    The table is read first and the files after it: what a stored position covers was written before it was stored, so it
    must be found. And what is found in a later look was written after the table was read, so nothing of that may be covered.
    """

    def __init__(self, watch):
        self._watch = watch
        self._pending = defaultdict(deque)  # by shard: what no stored position covers yet
        self._taken = 0
        self._known = defaultdict(list)  # by shard: (look, position), whenever it had moved
        self.looks = 0
        self.violations = []

    def look(self, positions, log):
        """One look: the positions as just read from the table, and the producer's log."""
        look = self._watch.look()
        if not positions:
            return  # no table yet
        self.looks += 1
        for put in log[self._taken :]:
            self._pending[put.shard].append(put)
            self._taken += 1
        delivered = {delivery.number for delivery in self._watch.deliveries()}
        for shard, position in positions.items():
            self._moved(look, shard, position)
            self._covers(shard, position, delivered)

    def _moved(self, look, shard, position):
        known = self._known[shard]
        before = known[-1][1] if known else NOTHING
        if position < before:
            self.violations.append(f"{shard}: the stored position goes back from {before} to {position}")
        if position != before:
            known.append((look, position))

    def _covers(self, shard, position, delivered):
        pending = self._pending[shard]
        while pending and pending[0].position <= position:
            put = pending.popleft()
            if put.number not in delivered:
                self.violations.append(
                    f"{shard} stores {position}, but record {put.number} at {put.position} is in no file"
                )

    def delivered_though_stored(self):
        """Deliveries of what a position covered that was stored before they were made. No fault excuses them."""
        wrong = []
        for delivery in self._watch.deliveries():
            known = self._known.get(delivery.shard, [])
            at = bisect_left(known, delivery.look, key=lambda one: one[0])
            stored = known[at - 1][1] if at else NOTHING
            if delivery.position <= stored:
                wrong.append(
                    f"{delivery.shard}: {delivery.worker} delivers {delivery.number} at {delivery.position}, "
                    f"which {stored} covered before"
                )
        return wrong
