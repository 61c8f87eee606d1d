"""The judge is judged: it accepts a good history and refuses one with a fault planted in it."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

from .history import END, History, Watch
from .plan import plan
from .processes import Failed
from .stored import Stored
from .stream import Put

SHARD, CHILD = "shardId-000000000000", "shardId-000000000001"


def line(number, shard=SHARD):
    """The number is the sequence number as well."""
    return {"shard": shard, "sequence": str(number), "sub_sequence": 0, "data": f"{number} "}


def put(number, shard=SHARD):
    return Put(number, shard, (number, 0), 0.0)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.watch = Watch()
        self.addCleanup(self.watch.stop)
        self.history = History(self.watch)
        self.stored = Stored(self.watch)

    def write(self, worker, *lines):
        """A worker writes these lines, and they are seen before anything else is written."""
        path = self.folder / f"{worker}.jsonl"
        self.watch.follow(worker, path)
        with path.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        self.watch.look()

    def look(self, position, *puts):
        self.stored.look({SHARD: (position, 0)}, list(puts))


class Deliveries(Case):
    def test_a_good_history_is_accepted(self):
        self.write("one", line(0), line(1))
        self.history.dies(["one"], {SHARD: (0, 0)})
        self.write("two", line(1), line(2))
        self.write("two", line(3, CHILD))
        self.history.delivered(4, seconds=0)
        self.history.ordered()
        self.history.no_unexplained_repeats()
        self.history.children_after_parents([{"ShardId": CHILD, "ParentShardId": SHARD}])

    def test_a_line_that_is_missing(self):
        self.write("one", line(0), line(2))
        self.assertEqual(self.history.missing(3), [1])
        with self.assertRaisesRegex(Failed, r"1 of 3 records are not delivered .* \[1\]"):
            self.history.delivered(3, seconds=0)

    def test_a_record_that_nobody_put(self):
        self.write("one", line(0), line(1))
        with self.assertRaisesRegex(Failed, "never put"):
            self.history.delivered(1, seconds=0)

    def test_disorder_in_one_file(self):
        self.write("one", line(1), line(0))
        with self.assertRaisesRegex(Failed, "after"):
            self.history.ordered()

    def test_disorder_over_two_files(self):
        self.write("one", line(1))
        self.write("two", line(0))
        with self.assertRaisesRegex(Failed, "after"):
            self.history.ordered()

    def test_a_child_before_its_parent_is_through(self):
        self.write("one", line(0))
        self.write("two", line(2, CHILD))
        self.write("one", line(1))
        with self.assertRaisesRegex(Failed, "begins before"):
            self.history.children_after_parents([{"ShardId": CHILD, "ParentShardId": SHARD}])


class Repeats(Case):
    def causes(self):
        explained, unexplained = self.history.repeats()
        return [cause for cause, *_ in explained], len(unexplained)

    def test_nothing_happened(self):
        self.write("one", line(0))
        self.write("two", line(0))
        self.assertEqual(self.causes(), ([], 1))

    def test_another_died(self):
        self.write("one", line(0))
        self.history.dies(["three"], {})
        self.write("two", line(0))
        self.assertEqual(self.causes(), ([], 1))

    def test_it_was_stored_when_its_deliverer_died(self):
        self.write("one", line(0), line(1))
        self.history.dies(["one"], {SHARD: (0, 0)}, "freeze")
        self.write("two", line(0), line(1))
        self.assertEqual(self.causes(), (["freeze"], 1))

    def test_its_deliverer_had_died_before(self):
        self.history.dies(["one"], {})
        self.write("one", line(0))
        self.write("two", line(0))
        self.assertEqual(self.causes(), ([], 1))

    def lost_in_trouble(self, lost, trouble):
        """A repeat, with a lease lost and a trouble so long after the first delivery; `None`: never."""
        self.write("one", line(0))
        seen = self.watch.deliveries()[0].seen
        if lost is not None:
            self.history.loses("one", SHARD, seen + lost)
        self.history.troubled(seen + trouble, seen + trouble + 1, "table")
        self.write("two", line(0))
        return self.causes()

    def test_its_deliverer_lost_the_lease_in_a_trouble(self):
        self.assertEqual(self.lost_in_trouble(lost=0, trouble=-0.5), (["table"], 0))

    def test_a_trouble_in_which_no_lease_was_lost(self):
        self.assertEqual(self.lost_in_trouble(lost=None, trouble=-0.5), ([], 1))

    def test_a_lease_that_was_lost_before_the_trouble(self):
        self.assertEqual(self.lost_in_trouble(lost=0, trouble=1), ([], 1))

    def test_a_lease_that_was_lost_long_before(self):
        self.assertEqual(self.lost_in_trouble(lost=-2, trouble=-2.5), ([], 1))

    def test_a_lease_that_was_lost_after_the_repeat(self):
        self.assertEqual(self.lost_in_trouble(lost=2, trouble=1.5), ([], 1))


class Positions(Case):
    def test_what_was_delivered_may_be_stored(self):
        self.write("one", line(0), line(1))
        self.look(1, put(0), put(1), put(2))
        self.write("one", line(2))
        self.look(END, put(0), put(1), put(2))
        self.assertEqual((self.stored.looks, self.stored.violations), (2, []))
        self.assertEqual(self.stored.delivered_though_stored(), [])

    def test_a_position_that_was_moved_by_hand(self):
        self.write("one", line(0))
        self.look(1, put(0), put(1))
        self.assertRegex(self.stored.violations[0], "record 1 at .* is in no file")

    def test_an_end_before_the_last_record(self):
        self.write("one", line(0))
        self.look(END, put(0), put(1))
        self.assertRegex(self.stored.violations[0], "record 1 at .* is in no file")

    def test_a_position_that_goes_back(self):
        self.write("one", line(0), line(1))
        self.look(1, put(0), put(1))
        self.look(0, put(0), put(1))
        self.assertRegex(self.stored.violations[0], "goes back")

    def test_a_delivery_of_what_was_stored_before(self):
        self.write("one", line(0), line(1))
        self.look(0, put(0), put(1))
        self.write("two", line(1))
        self.assertEqual(self.stored.delivered_though_stored(), [])
        self.write("two", line(0))
        self.assertRegex(self.stored.delivered_though_stored()[0], "two delivers 0 .* covered before")


class Plans(unittest.TestCase):
    def test_a_seed_draws_the_same_again_and_all_kinds(self):
        kinds = ["kill", "split", "table_cut"]
        drawn = plan(7, 60, kinds)
        self.assertEqual(drawn, plan(7, 60, kinds))
        self.assertNotEqual(drawn, plan(8, 60, kinds))
        for at in range(0, len(drawn) - 2, 3):
            self.assertEqual({strike.kind for strike in drawn[at : at + 3]}, set(kinds))


def through(world):
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    with (world.folder / "judge.log").open("w") as log:
        result = unittest.TextTestRunner(log, verbosity=2).run(suite)
    if not result.wasSuccessful() or not result.testsRun:
        raise Failed((world.folder / "judge.log").read_text())
    world.note(f"{result.testsRun} histories")


CHECKS = [("judge", "the judge accepts a good history and refuses planted faults", through, 30)]
