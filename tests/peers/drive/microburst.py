"""microburst 0.10.0: faults as AWS spells them, between the worker and the embedded AWS."""

import json
import urllib.request

from . import emulators, fleet
from .processes import Failed

KINESIS = [
    {"service": "kinesis", "operation": "GetRecords", "sequence": {"fail": 2, "pass": 5},
     "error": {"code": "ProvisionedThroughputExceededException"}},
    {"service": "kinesis", "operation": "GetRecords", "probability": 0.02, "error": {"code": "ExpiredIteratorException"}},
    {"service": "kinesis", "operation": "GetRecords", "probability": 0.02, "error": {"code": "InternalFailure", "status": 500}},
    {"service": "kinesis", "operation": "GetRecords", "probability": 0.02, "reset": True},
    {"service": "kinesis", "operation": "GetRecords", "probability": 0.02, "response": {"truncate_frac": 0.5}},
    {"service": "kinesis", "operation": "GetShardIterator", "sequence": {"fail": 1, "pass": 2},
     "error": {"code": "ProvisionedThroughputExceededException"}},
    {"service": "kinesis", "operation": "ListShards", "sequence": {"fail": 2, "pass": 1},
     "error": {"code": "LimitExceededException"}},
    {"service": "kinesis", "operation": "DescribeStreamSummary", "times": 2, "error": {"code": "LimitExceededException"}},
]
DYNAMODB = [
    {"service": "dynamodb", "operation": "UpdateItem", "sequence": {"fail": 1, "pass": 4},
     "error": {"code": "ProvisionedThroughputExceededException"}},
    {"service": "dynamodb", "operation": "Scan", "sequence": {"fail": 1, "pass": 3}, "error": {"code": "ThrottlingException"}},
    {"service": "dynamodb", "operation": "UpdateItem", "probability": 0.03, "error": {"code": "InternalServerError", "status": 500}},
    # The write is done and its reply lost: it may have happened.
    {"service": "dynamodb", "operation": "UpdateItem", "probability": 0.05, "response": {"abort_frac": 0.0}},
]


def fired(url):
    """How often each fault was made, by operation and fault."""
    with urllib.request.urlopen(f"{url}/_microburst/fired", timeout=10) as answer:
        events = json.load(answer)
    events = events.get("fired", events) if isinstance(events, dict) else events
    counts = {}
    for event in events:
        key = f"{event['operation']} {event['action']}"
        counts[key] = counts.get(key, 0) + 1
    return counts


def through(world):
    kinesis, dynamodb = world.add(emulators.local(world.folder, "--stream", "orders:4"))
    world.aws(kinesis, dynamodb)
    # The workers' calls go through the proxies, the driver's do not.
    world.kinesis = world.add(emulators.microburst(world.folder, "kinesis", kinesis, KINESIS))
    world.dynamodb = world.add(emulators.microburst(world.folder, "dynamodb", dynamodb, DYNAMODB))
    world.configure()
    world.produce(per_second=5, aggregate=5)
    one, two = world.worker("one"), world.worker("two")
    fleet.even(world, ["one", "two"], 4, 60)
    one = fleet.kill_and_return(world, one, ["one", "two"], 4)
    fleet.split_and_merge(world)
    made = world.finish(60)
    world.history.ordered()
    explained, unexplained = world.history.repeats()
    pairs = world.history.children_after_parents(world.stream.shards())
    counts = {**fired(world.kinesis), **fired(world.dynamodb)}
    for operation in ("GetRecords", "GetShardIterator", "ListShards", "UpdateItem", "Scan"):
        if not any(key.startswith(operation) for key in counts):
            raise Failed(f"no fault of {operation} was made, nothing was tested: {counts}")
    world.note(f"{made} records, none lost, per shard in order, {pairs} children after their parents")
    world.note(f"{len(explained)} repeats explained by the kill, {len(unexplained)} by faults")
    world.note("faults: " + ", ".join(f"{count}x {key}" for key, count in sorted(counts.items())))
    world.stop(one)
    world.stop(two)


CHECKS = [("microburst", "microburst 0.10.0: throttles, errors, resets, lost replies; kill, split and merge", through, 240)]
