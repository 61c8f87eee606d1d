"""What the workers wrote, in the order in which it was seen, and what must hold for it."""

import json
import threading
from collections import defaultdict
from dataclasses import dataclass

from .processes import Failed, until

END = 1 << 200  # after every sequence number


@dataclass(frozen=True)
class Delivery:
    look: int  # two files that grew within one look say nothing about who was first
    worker: str
    shard: str
    position: tuple  # sequence number, sub-sequence number
    number: int


class Watch(threading.Thread):
    """Reads the files of all workers as they grow."""

    def __init__(self):
        super().__init__(daemon=True)
        self._files = {}
        self._deliveries = []
        self._lock = threading.Lock()
        self._stop_asked = threading.Event()
        self._look = 0
        self.start()

    def follow(self, worker, path):
        with self._lock:
            self._files.setdefault(path, (worker, 0, b""))

    def line(self, worker, line):
        """One line that did not come by a file."""
        with self._lock:
            self._look += 1
            self._take(worker, line)

    def run(self):
        while not self._stop_asked.wait(0.02):
            self._sweep()

    def stop(self):
        self._stop_asked.set()
        self.join(5)

    def deliveries(self):
        self._sweep()
        with self._lock:
            return list(self._deliveries)

    def _sweep(self):
        with self._lock:
            self._look += 1
            for path, (worker, at, rest) in self._files.items():
                try:
                    with path.open("rb") as file:
                        file.seek(at)
                        fresh = file.read()
                except FileNotFoundError:
                    continue
                *lines, rest = (rest + fresh).split(b"\n")
                self._files[path] = (worker, at + len(fresh), rest)
                for line in lines:
                    self._take(worker, line)

    def _take(self, worker, line):
        try:
            value = json.loads(line)
        except ValueError:
            # The line in which a killed process died, and the first of the next one after it.
            return
        position = (int(value["sequence"]), value["sub_sequence"])
        number = int(value["data"].split()[0])
        self._deliveries.append(Delivery(self._look, worker, value["shard"], position, number))


class History:
    """The judge. `dies` is told of each kill, so that what it repeats is known to be explained."""

    def __init__(self, watch):
        self.watch = watch
        self._deaths = []
        self.extra = set()  # numbers that were put besides the producer's

    def numbers(self):
        return {delivery.number for delivery in self.watch.deliveries()}

    def dies(self, workers, positions):
        """These workers died now, with these positions stored, by shard."""
        self._deaths.append((frozenset(workers), dict(positions), len(self.watch.deliveries())))

    def delivered(self, made, seconds):
        """Waits until every number below `made` is delivered, and those put besides."""
        expected = set(range(made)) | self.extra
        try:
            until("everything is delivered", seconds, lambda: expected <= self.numbers())
        except Failed:
            missing = sorted(expected - self.numbers())
            raise Failed(
                f"{len(missing)} of {len(expected)} records are not delivered after {seconds} s, the first are {missing[:5]}"
            ) from None
        strange = self.numbers() - expected
        if strange:
            raise Failed(f"delivered but never put: {sorted(strange)[:5]}")

    def repeats(self):
        """Repeated deliveries: those a death explains, and those nothing does."""
        first, explained, unexplained = {}, [], []
        for at, delivery in enumerate(self.watch.deliveries()):
            key = (delivery.shard, delivery.position)
            before = first.setdefault(key, (at, delivery))
            if before[0] == at:
                continue
            (explained if self._explained(before, at, delivery) else unexplained).append((before[1], delivery))
        return explained, unexplained

    def _explained(self, before, at, delivery):
        """Whether the first deliverer died in between without having stored it."""
        for dead, positions, when in self._deaths:
            stored = positions.get(delivery.shard, (-1, 0))
            if before[0] < when <= at and before[1].worker in dead and delivery.position > stored:
                return True
        return False

    def no_unexplained_repeats(self, tolerated=0):
        explained, unexplained = self.repeats()
        if len(unexplained) > tolerated:
            first, again = unexplained[0]
            raise Failed(
                f"{len(unexplained)} repeats that no kill explains; the first: {again.shard} {again.position} "
                f"by {first.worker}, then by {again.worker}"
            )
        return explained, unexplained

    def ordered(self):
        """Per shard, first deliveries rise: exactly within a file, look by look over all files."""
        known, by_shard = set(), defaultdict(list)
        per_file = {}
        for delivery in self.watch.deliveries():
            key = (delivery.shard, delivery.position)
            if key in known:
                continue
            known.add(key)
            last = per_file.get((delivery.shard, delivery.worker))
            if last and last > delivery.position:
                raise Failed(f"{delivery.shard}: {delivery.worker} has {delivery.position} after {last}")
            per_file[(delivery.shard, delivery.worker)] = delivery.position
            by_shard[delivery.shard].append(delivery)
        for shard, deliveries in by_shard.items():
            last = (-1, 0)
            for delivery in sorted(deliveries, key=lambda one: (one.look, one.position)):
                if delivery.position < last:
                    raise Failed(f"{shard}: {delivery.position} by {delivery.worker} after {last}")
                last = delivery.position

    def children_after_parents(self, shards):
        """No child's first record is seen before its parents' last (first delivery each)."""
        first, last, known = {}, {}, set()
        for delivery in self.watch.deliveries():
            key = (delivery.shard, delivery.position)
            if key not in known:
                known.add(key)
                first.setdefault(delivery.shard, delivery)
                last[delivery.shard] = delivery
        pairs = 0
        for shard in shards:
            for parent in (shard.get("ParentShardId"), shard.get("AdjacentParentShardId")):
                child = first.get(shard["ShardId"])
                if not parent or not child or parent not in last:
                    continue
                pairs += 1
                if child.look < last[parent].look:
                    raise Failed(f"{shard['ShardId']} begins before {parent} is through")
        if pairs == 0:
            raise Failed("no child was read after its parent: nothing was tested")
        return pairs
