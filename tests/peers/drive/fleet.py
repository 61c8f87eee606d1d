"""What two workers go through on any stand-in: they share, one is killed, it comes back, shards split and merge."""

from .processes import until


def even(world, workers, shards, seconds):
    """Waits until these workers share all shards evenly."""

    def fair():
        owners = world.table.owners()
        counts = [owners.get(worker, 0) for worker in workers]
        return sum(counts) == shards and max(counts) - min(counts) <= 1

    until(f"{workers} share {shards} shards", seconds, fair)


def kill_and_return(world, victim, workers, shards):
    """Kills one worker, waits until another reads its shards, and starts it again."""
    name = victim.name
    other = next(worker for worker in workers if worker != name)
    until("something is delivered", 30, lambda: len(world.history.numbers()) > 50)
    world.kill(victim)
    even(world, [other], shards, 30)
    again = world.worker(name)
    even(world, workers, shards, 30)
    return again


def split_and_merge(world):
    """Splits the first shard, then merges two neighbours; waits each time until all open shards are owned and read."""
    stream = world.stream
    before = len(stream.open_shards())
    stream.split(stream.open_shards()[0])
    _all_read(world, before + 1)
    left, right = stream.open_shards()[-2:]
    stream.merge(left, right)
    _all_read(world, before)


def _all_read(world, shards):
    until(f"{shards} shards are owned", 60, lambda: sum(world.table.owners().values()) == shards)
    open_now = {shard["ShardId"] for shard in world.stream.open_shards()}
    until("all of them are read", 60, lambda: open_now <= {one.shard for one in world.watch.deliveries()})


def judge(world, seconds, reshards):
    """Nothing lost, in order, children after parents, no repeat that no kill explains."""
    made = world.finish(seconds)
    world.history.ordered()
    explained, _ = world.history.no_unexplained_repeats()
    pairs = world.history.children_after_parents(world.stream.shards()) if reshards else 0
    reshard = f", {pairs} children after their parents" if reshards else ""
    world.note(f"{made} records, none lost, per shard in order{reshard}; {len(explained)} repeats, all explained by the kill")
