"""What came of a chaos: one line of JSON, as the program `chaos` of tests/ writes it."""

import json
from bisect import bisect
from collections import Counter

from .faults import FAULTS
from .processes import Failed


def tell(chaos, resharded, options):
    """Prints the line; fails if a promise does not hold."""
    fired = chaos.proxies["kinesis"].fired() + chaos.proxies["dynamodb"].fired()
    struck = Counter(kind for _, kind in chaos.struck)
    repeated = _judge(chaos, resharded)
    chaos.violations += [f"no call to {service} was hit, nothing was tested" for service in _untouched(fired)]
    records = len(chaos.world.producer.log)
    ok = not chaos.violations and not chaos.lost and records > 0 and chaos.stored.looks > 0
    verdict = {
        "chaos": options,
        "records": records,
        "faults": struck,
        "calls_hit": {kind: fired[kind] for kind in struck if kind in FAULTS},
        "longest_wait_ms": _waits(chaos),
        "lost": len(chaos.lost),
        "repeated": sum(repeated.values()),
        "repeated_by": repeated,
        "looks": chaos.stored.looks,
        "violations": chaos.violations[:20],
        "ok": ok,
    }
    print(json.dumps(verdict))
    if not ok:
        first = "; ".join(chaos.violations[:3])
        raise Failed(f"{len(chaos.lost)} lost, {len(chaos.violations)} violations: {first}")


def _untouched(fired):
    """Services without any fault. One kind alone may meet no call: while another takes all of them, or nobody calls."""
    hit = {FAULTS[kind].service for kind, calls in fired.items() if calls}
    return sorted({fault.service for fault in FAULTS.values()} - hit)


def _judge(chaos, resharded):
    """Adds to the violations what the history shows; answers the repeats by what explains them."""
    history = chaos.world.history
    for loss in chaos.crew.losses():
        history.loses(*loss)
    chaos.violations += chaos.crew.violations + chaos.stored.violations + chaos.stored.delivered_though_stored()
    chaos.holds(history.ordered)
    if resharded:
        chaos.holds(lambda: history.children_after_parents(chaos.world.stream.shards()))
    explained, unexplained = history.repeats()
    chaos.violations += [
        f"{again.shard}: {again.number} by {first.worker}, then by {again.worker}, and nothing explains it"
        for first, again in unexplained
    ]
    return Counter(cause for cause, *_ in explained) + Counter(unexplained=len(unexplained))


def _waits(chaos):
    """The longest that a record waited which was put while this kind was the latest to strike, in ms."""
    first, longest = {}, {}
    for delivery in chaos.world.watch.deliveries():
        first.setdefault(delivery.number, delivery.seen)
    for put in chaos.world.producer.log:
        before = bisect(chaos.struck, put.at, key=lambda one: one[0])
        if before and put.number in first:
            kind = chaos.struck[before - 1][1]
            longest[kind] = max(longest.get(kind, 0), round(1000 * (first[put.number] - put.at)))
    return longest
