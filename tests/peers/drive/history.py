"""What the workers wrote, in the order in which it was seen, and what must hold for it."""

import json
import threading
import time
from collections import defaultdict
from dataclasses import dataclass

from .processes import Failed, until

END = 1 << 200  # after every sequence number
SEEN_WITHIN = 1.0  # seconds in which a written line is seen, on a busy machine too


@dataclass(frozen=True)
class Delivery:
    look: int  # two files that grew within one look say nothing about who was first
    worker: str
    shard: str
    position: tuple  # sequence number, sub-sequence number
    number: int
    seen: float  # by the monotonic clock, when the look began that found it


class Watch(threading.Thread):
    """Reads the files of all workers as they grow."""

    def __init__(self):
        super().__init__(daemon=True)
        self._files = {}
        self._deliveries = []
        self._lock = threading.Lock()
        self._stop_asked = threading.Event()
        self._look = 0
        self._seen = 0.0
        self.start()

    def follow(self, worker, path):
        with self._lock:
            self._files.setdefault(path, (worker, 0, b""))

    def line(self, worker, line):
        """One line that did not come by a file."""
        with self._lock:
            self._look += 1
            self._seen = time.monotonic()
            self._take(worker, line)

    def run(self):
        while not self._stop_asked.wait(0.02):
            self.look()

    def stop(self):
        self._stop_asked.set()
        self.join(5)

    def deliveries(self):
        self.look()
        with self._lock:
            return list(self._deliveries)

    def look(self):
        """Reads all files once more. What was written before is in this look, whose number is answered, or in an earlier one."""
        with self._lock:
            self._look += 1
            self._seen = time.monotonic()
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
            return self._look

    def _take(self, worker, line):
        try:
            value = json.loads(line)
        except ValueError:
            # The line in which a killed process died, and the first of the next one after it.
            return
        position = (int(value["sequence"]), value["sub_sequence"])
        number = int(value["data"].split()[0])
        self._deliveries.append(Delivery(self._look, worker, value["shard"], position, number, self._seen))


class History:
    """The judge. `dies`, `troubled` and `loses` are told what happened, so that the repeats it explains are known."""

    def __init__(self, watch):
        self.watch = watch
        self._deaths = []
        self._troubles = []
        self._losses = []
        self.extra = set()  # numbers that were put besides the producer's

    def numbers(self):
        return {delivery.number for delivery in self.watch.deliveries()}

    def dies(self, workers, positions, cause="kill"):
        """These workers died now, or are frozen until others take their leases, with these positions stored, by shard."""
        self._deaths.append((frozenset(workers), dict(positions), len(self.watch.deliveries()), cause))

    def troubled(self, begin, end, cause):
        """From `begin` to `end` any worker may lose any lease before it has stored what it delivered."""
        self._troubles.append((begin, end, cause))

    def troubled_since(self, since):
        """Whether there was, or still is, a trouble after that time."""
        return any(end >= since for _, end, _ in self._troubles)

    def loses(self, worker, shard, at):
        """This worker says that it lost this lease then. Whoever hands one over has stored what it delivered."""
        self._losses.append((worker, shard, at))

    def delivered(self, made, seconds):
        """Waits until every number below `made` is delivered, and those put besides."""
        expected = set(range(made)) | self.extra
        try:
            until("everything is delivered", seconds, lambda: expected <= self.numbers())
        except Failed:
            missing = self.missing(made)
            raise Failed(
                f"{len(missing)} of {len(expected)} records are not delivered after {seconds} s, the first are {missing[:5]}"
            ) from None
        strange = self.numbers() - expected
        if strange:
            raise Failed(f"delivered but never put: {sorted(strange)[:5]}")

    def missing(self, made):
        """The numbers that were put and are not delivered, with `made` of them by the producer."""
        return sorted((set(range(made)) | self.extra) - self.numbers())

    def repeats(self):
        """Repeated deliveries: those with an explanation, as (cause, first, again), and those without, as (first, again)."""
        first, explained, unexplained = {}, [], []
        for at, delivery in enumerate(self.watch.deliveries()):
            key = (delivery.shard, delivery.position)
            before = first.setdefault(key, (at, delivery))
            if before[0] == at:
                continue
            cause = self._cause(before, at, delivery)
            if cause:
                explained.append((cause, before[1], delivery))
            else:
                unexplained.append((before[1], delivery))
        return explained, unexplained

    def _cause(self, before, at, again):
        """What kept the first deliverer from storing it: its death in between, or the loss of its lease in a trouble of all."""
        index, first = before
        for dead, positions, when, cause in self._deaths:
            stored = positions.get(again.shard, (-1, 0))
            if index < when <= at and first.worker in dead and again.position > stored:
                return cause
        for worker, shard, at in self._losses:
            if (worker, shard) == (first.worker, first.shard) and first.seen - SEEN_WITHIN <= at <= again.seen:
                return next((cause for begin, end, cause in self._troubles if begin <= at <= end), None)
        return None

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
