"""The faults of AWS that microburst makes, in random strength, and the proxies that make them."""

import json
import urllib.request
from collections import Counter
from dataclasses import dataclass
from typing import Callable


@dataclass(frozen=True)
class Fault:
    service: str
    rule: Callable  # from a number in [0, 1) to what a rule does
    operation: str | None = None
    every_call: bool = False
    seconds: tuple = (1.0, 5.0)
    lingers: float = 0.0  # seconds for which a call that was made in time may still be under way


def _error(code, status=400):
    return {"error": {"code": code, "status": status}}


_CUT = {"reset": True}
# The call is done and its answer lost.
_LOST = {"response": {"abort_frac": 0.0}}


def _truncated(strength):
    """An answer of success that breaks off, a third of the time before it has begun: an empty one is none that is just short."""
    return {"response": {"truncate_frac": max(0.0, strength * 1.5 - 0.5)}}


def _slow(strength):
    """Up to four times what the worker waits for a call to the table: some calls are done after it has given them up."""
    return {"latency": {"min": 200, "max": 500 + 2500 * strength}}


FAULTS = {
    "kinesis_throttled": Fault("kinesis", lambda _: _error("ProvisionedThroughputExceededException")),
    "kinesis_fails": Fault("kinesis", lambda _: _error("InternalFailure", 500)),
    "kinesis_cut": Fault("kinesis", lambda _: _CUT),
    "kinesis_lost": Fault("kinesis", lambda _: _LOST),
    "kinesis_truncated": Fault("kinesis", _truncated),
    "kinesis_expired": Fault("kinesis", lambda _: _error("ExpiredIteratorException"), "GetRecords"),
    "kinesis_slow": Fault("kinesis", _slow),
    "kinesis_away": Fault("kinesis", lambda _: _CUT, every_call=True, seconds=(2.0, 6.0)),
    "table_throttled": Fault("dynamodb", lambda _: _error("ProvisionedThroughputExceededException")),
    "table_limited": Fault("dynamodb", lambda _: _error("ThrottlingException")),
    "table_fails": Fault("dynamodb", lambda _: _error("InternalServerError", 500)),
    "table_cut": Fault("dynamodb", lambda _: _CUT),
    "table_lost": Fault("dynamodb", lambda _: _LOST),
    "table_truncated": Fault("dynamodb", _truncated),
    "table_slow": Fault("dynamodb", _slow, lingers=3.0),
    # Longer than the failover time, too: all leases are lost.
    "table_away": Fault("dynamodb", lambda _: _CUT, every_call=True, seconds=(2.0, 6.0)),
}


def rule(fault, strength, share):
    """A fault as a rule, and how many seconds it lasts: it hits one to three calls of every one to five."""
    hits = 1 + int(strength * 3)
    sequence = {"fail": 1, "pass": 0} if fault.every_call else {"fail": hits, "pass": int(share * 3)}
    shortest, longest = fault.seconds
    seconds = shortest + (longest - shortest) * share
    made = {"service": fault.service, "sequence": sequence, "ttl_s": seconds, **fault.rule(strength)}
    if fault.operation:
        made["operation"] = fault.operation
    return made, seconds


class Proxy:
    """A running microburst, told by its API."""

    def __init__(self, url):
        self._url = f"{url}/_microburst"
        self._kinds = {}  # by rule

    def make(self, kind, rule):
        for added in self._ask("PATCH", "rules", [rule]):
            self._kinds[added["id"]] = kind

    def calm(self):
        self._ask("DELETE", "rules", [])

    def fired(self):
        """How many calls each kind has hit."""
        counts = Counter()
        for rule in self._ask("GET", "stats")["by_rule"]:
            counts[self._kinds[rule["id"]]] += rule["fired"]
        return counts

    def _ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}/{path}", data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)
