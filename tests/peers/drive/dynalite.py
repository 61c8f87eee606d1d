"""dynalite 4.0.0 as the lease table: it shows CREATING, and refuses conditions without telling the row."""

from . import emulators, fleet
from .processes import until


def start(world):
    kinesis, _ = world.add(emulators.local(world.folder, "--stream", "orders:4"))
    dynamodb = world.add(emulators.dynalite(world.folder, creating_ms=3000))
    world.aws(kinesis, dynamodb)
    world.configure()


def through(world):
    """Two workers start at once and both find no table; then a kill, a split and a merge."""
    start(world)
    world.produce(per_second=5, aggregate=5)
    one, two = world.worker("one"), world.worker("two")
    fleet.even(world, ["one", "two"], 4, 40)
    one = fleet.kill_and_return(world, one, ["one", "two"], 4)
    fleet.split_and_merge(world)
    fleet.judge(world, 40, reshards=True)
    world.stop(one)
    world.stop(two)


def without_index(world):
    """A table of KCL 2.x has no index, and dynalite adds none. Only Java workers need it, and they add it themselves."""
    start(world)
    world.table.dynamodb.create_table(
        TableName=world.table.name,
        KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
        ProvisionedThroughput={"ReadCapacityUnits": 10, "WriteCapacityUnits": 10},
    )
    world.produce(per_second=5, aggregate=5)
    worker = world.worker("one")
    fleet.even(world, ["one"], 4, 40)
    until("something is delivered", 30, lambda: len(world.history.numbers()) > 50)
    fleet.judge(world, 40, reshards=False)
    for line in worker.text().splitlines():
        if " WARN " in line:
            world.note(f"says: {line.split(' WARN ')[1]}")
    world.stop(worker)


CHECKS = [
    ("dynalite", "dynalite 4.0.0 as lease table: made by two at once, kill, split and merge", through, 180),
    ("dynalite-index", "dynalite 4.0.0 with a table that has no index", without_index, 120),
]
