"""The Java KCL 3.5.1 and shardkeeper in one fleet: one table, one stream, moved over and back while they run.

The Java KCL releases nothing when it stops and looks for the leader lock every 30 s, for new leases every 10 s, and at
the balance every 60 s. Its waits are its own; ours are noted beside them.
"""

import time

from . import emulators
from .processes import Failed, until

FAILOVER = 10
# A JVM that was told to stop and did.
TERMINATED = 143


class Clock:
    def __init__(self):
        self.began = time.monotonic()

    def __str__(self):
        return f"{time.monotonic() - self.began:.1f} s"


def holds(world, worker, shares, seconds, process):
    """Waits until `worker` has at least so many leases; answers how long that took."""
    clock = Clock()
    try:
        until(f"{worker} holds {shares}", seconds, lambda: world.table.shares(worker) >= shares, process)
    except Failed as failed:
        raise Failed(f"{failed}; shares are {world.table.owners()}, the leader is {world.table.leader()}") from None
    return str(clock)


def reads(world, worker, shards, seconds, process):
    """Waits until `worker` delivers from so many shards, from now on; answers how long that took."""
    clock, before = Clock(), len(world.watch.deliveries())

    def read():
        return {one.shard for one in world.watch.deliveries()[before:] if one.worker == worker}

    try:
        until(f"{worker} delivers from {shards} shards", seconds, lambda: len(read()) >= shards, process)
    except Failed as failed:
        raise Failed(f"{failed}; it does from {sorted(read())}, shares are {world.table.owners()}") from None
    return str(clock)


def leads(world, worker, seconds, process):
    until(f"{worker} leads", seconds, lambda: world.table.leader() == worker, process)


def fleet(world, **sets):
    world.aws(*world.add(emulators.local(world.folder, "--stream", "orders:4")))
    world.configure(failover=FAILOVER, **sets)


def java_first(world):
    """Java leads and gives us leases; it stops and we take all; it comes back; we leave; it dies inside an aggregate."""
    fleet(world)
    world.produce(per_second=5, aggregate=5)
    java = world.java("java-1")
    leads(world, "java-1", 180, java)
    world.note(f"Java alone reads all 4 shards after {reads(world, 'java-1', 4, 240, java)}")
    world.put(10_000_000, 200)
    until("Java delivers what our put aggregated", 30, lambda: world.history.extra <= world.history.numbers(), java)
    world.note(f"Java unpacks our aggregates; we read its {world.same_rows()} rows")

    keeper = world.worker("keeper-1")
    world.note(f"a Java leader gives us a lease after {holds(world, 'keeper-1', 1, 240, keeper)}")
    if world.table.leader() != "java-1":
        raise Failed(f"{world.table.leader()} took the lead from a living Java leader")
    resharded = split_one_of_each(world, "java-1", "keeper-1")
    until("both children of both splits are owned", 90, lambda: sum(world.table.owners().values()) >= 6, keeper)

    world.stop(java, good=TERMINATED)
    world.note(f"Java stops politely, we read all {resharded} shards after {reads(world, 'keeper-1', resharded, 60, keeper)}")
    leads(world, "keeper-1", 30, keeper)

    java = world.java("java-2")
    world.note(f"we lead, Java joins and holds a lease after {holds(world, 'java-2', 1, 180, java)}")
    world.stop(keeper)
    world.note(f"we stop, Java reads all after {reads(world, 'java-2', resharded, 200, java)}")

    shard, stored = die_inside_an_aggregate(world, java)
    keeper = world.worker("keeper-2")
    world.note(f"Java dies, we read all after {reads(world, 'keeper-2', resharded, 60, keeper)}")
    made = world.finish(40)
    went_on = next(
        one for one in world.watch.deliveries() if one.worker == "keeper-2" and one.shard == shard
    )
    if went_on.position != (stored[0], stored[1] + 1):
        raise Failed(f"{shard}: Java stored {stored}, we went on at {went_on.position}")
    judge(world, made)
    world.stop(keeper)


def split_one_of_each(world, *owners):
    """Splits one shard of each owner; answers how many open shards there are then."""
    leases = world.table.leases()
    for owner in owners:
        mine = {key for key, row in leases.items() if row.get("leaseOwner") == owner and not row.get("checkpointOwner")}
        shard = next(shard for shard in world.stream.open_shards() if shard["ShardId"] in mine)
        world.stream.split(shard)
    return len(world.stream.open_shards())


def die_inside_an_aggregate(world, java):
    """Makes Java checkpoint inside an aggregate and die; answers the shard and the stored position."""
    world.halt_file.touch()
    code = java.wait(30)
    if code != 9:
        raise Failed(f"Java exits {code} instead of halting")
    positions = world.table.positions()
    world.history.dies([java.name], positions)
    line = next(line for line in java.text().splitlines() if " halts at " in line)
    shard, _, _, position = line.removeprefix("recorder: ").split(" ")
    sequence, sub = position.split("/")
    stored = (int(sequence), int(sub))
    if positions[shard] != stored:
        raise Failed(f"Java checkpointed {stored} for {shard}, the table says {positions[shard]}")
    return shard, stored


def judge(world, made):
    explained, unexplained = world.history.no_unexplained_repeats()
    world.history.ordered()
    pairs = world.history.children_after_parents(world.stream.shards())
    world.note(
        f"{made} records, none lost, per shard in order, {pairs} children after their parents; "
        f"{len(explained)} repeats, all explained by the kill; {len(unexplained)} others"
    )


AGGREGATE = 50


def keeper_first(world):
    """We make the table and lead; Java joins; we stop inside aggregates and Java goes on at the very next record."""
    fleet(world, handler={"sink": "stdout", "path": None})
    world.produce(per_second=2, aggregate=AGGREGATE, padding=400)
    # Small batches to a slow reader: a stop comes in the middle of an aggregate.
    keeper, gate = world.slow_worker("keeper-1", 30, "delivery.batch.records=7")
    leads(world, "keeper-1", 30, keeper)
    world.note(f"we make the table and hold 4 leases after {holds(world, 'keeper-1', 4, 30, keeper)}")
    java = world.java("java-1")
    world.note(f"we lead, Java joins and holds 2 leases after {holds(world, 'java-1', 2, 240, java)}")
    gate.open()
    world.stop(keeper)
    positions = world.table.positions()
    inside = [shard for shard, (_, sub) in positions.items() if 0 < sub < AGGREGATE - 1]
    stood = {shard: position for shard, position in positions.items() if shard in inside}
    if not inside:
        raise Failed(f"we stopped nowhere inside an aggregate, nothing was tested: {positions}")
    world.note(f"we stop, Java reads all after {reads(world, 'java-1', 4, 200, java)}")
    made = world.finish(60)
    checked = 0
    for shard, position in stood.items():
        after = [one.position for one in world.watch.deliveries() if one.shard == shard and one.position > position]
        by_keeper = any(one.worker == "keeper-1" and one.position == position for one in world.watch.deliveries() if one.shard == shard)
        if not by_keeper:
            continue  # a position of Java's own shards
        checked += 1
        if min(after) != (position[0], position[1] + 1):
            raise Failed(f"{shard}: we stored {position}, Java went on at {min(after)}")
    if not checked:
        raise Failed("none of the shards we left stood inside an aggregate: nothing was tested")
    explained, unexplained = world.history.no_unexplained_repeats()
    world.history.ordered()
    world.note(f"{made} records, none lost, none repeated ({len(explained) + len(unexplained)}), {checked} shards carried over inside an aggregate")
    world.stop(java, good=TERMINATED)


CHECKS = [
    ("java-first", "a fleet of the Java KCL 3.5.1 moves to shardkeeper and back, and back again", java_first, 900),
    ("java-joins", "the Java KCL 3.5.1 joins a fleet of shardkeeper and takes it over", keeper_first, 720),
]
