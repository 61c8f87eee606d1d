"""ministack 1.5.33: Kinesis and DynamoDB of one program. Never resharded: it deletes the parents with their records."""

from . import emulators, fleet


def through(world):
    url = world.add(emulators.ministack(world.folder))
    world.aws(url, url)
    world.stream.create(4)
    world.configure()
    world.produce(per_second=5, aggregate=5)
    one, two = world.worker("one"), world.worker("two")
    fleet.even(world, ["one", "two"], 4, 40)
    world.tool("check", "--aws")
    world.put(10_000_000, 200)
    world.note(f"`check --aws`, `put --aggregate` and `leases` ({world.same_rows()} rows) work there")
    one = fleet.kill_and_return(world, one, ["one", "two"], 4)
    fleet.judge(world, 40, reshards=False)
    world.stop(one)
    world.stop(two)


CHECKS = [("ministack", "ministack 1.5.33: stream and lease table, two workers, one killed", through, 180)]
