"""What a seed draws: which fault strikes when, and how hard."""

from dataclasses import dataclass
from random import Random

PAUSE = (0.4, 2.6)  # seconds between two strikes


@dataclass(frozen=True)
class Strike:
    at: float  # seconds from the beginning
    kind: str
    which: float  # both in [0, 1): whom or what it hits, and
    how: float  # how long or how hard


def plan(seed, seconds, kinds):
    """All strikes of a seed. Every kind comes once before any comes again, each time in another order."""
    random = Random(seed)
    strikes, at, bag = [], 0.0, []
    while True:
        at += random.uniform(*PAUSE)
        if at >= seconds:
            return strikes
        bag = bag or random.sample(kinds, len(kinds))
        strikes.append(Strike(at, bag.pop(), random.random(), random.random()))


def pick(choices, fraction):
    """One of the choices; the same fraction picks the same of as many."""
    return choices[int(fraction * len(choices))]
