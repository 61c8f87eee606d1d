"""kinesis-local 0.6.2: the only other program with a right lineage, hence the one for splits and merges."""

from . import emulators, fleet


def start(world, *sets):
    kinesis = world.add(emulators.kinesis_local(world.folder))
    _, dynamodb = world.add(emulators.local(world.folder))
    world.aws(kinesis, dynamodb)
    world.stream.create(2)
    world.configure()
    world.produce(per_second=5, aggregate=5)


def through(world):
    """A kill, a split and a merge; the closed shards' EndingSequenceNumber is below their records' numbers."""
    start(world)
    one, two = world.worker("one"), world.worker("two")
    fleet.even(world, ["one", "two"], 2, 30)
    world.put(10_000_000, 200)
    one = fleet.kill_and_return(world, one, ["one", "two"], 2)
    fleet.split_and_merge(world)
    fleet.judge(world, 40, reshards=True)
    world.stop(one)
    world.stop(two)


def politely(world):
    """One worker after another, told to stop: nothing is repeated."""
    start(world)
    for name in ("one", "two", "three"):
        worker = world.worker(name)
        fleet.even(world, [name], 2, 30)
        seen = len(world.history.numbers())
        fleet.until("more is delivered", 30, lambda seen=seen: len(world.history.numbers()) > seen + 50)
        world.stop(worker)
    worker = world.worker("four")
    # A process that is told to stop in its first moments has no ear for signals yet.
    fleet.even(world, ["four"], 2, 30)
    fleet.judge(world, 40, reshards=False)
    world.stop(worker)


CHECKS = [
    ("kinesis-local", "kinesis-local 0.6.2: kill and restart, split and merge", through, 240),
    ("kinesis-local-politely", "kinesis-local 0.6.2: four workers one after another, nothing twice", politely, 150),
]
