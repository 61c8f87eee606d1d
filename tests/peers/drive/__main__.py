"""Runs the checks, each in a world of its own and within a deadline."""

import signal
import sys
import time
import traceback

from . import chaos, dynalite, java, judge, kinesis_local, microburst, ministack
from .processes import Failed
from .world import World

# name, what it says when it holds, the check, seconds it may take
CHECKS = [
    *java.CHECKS,
    *kinesis_local.CHECKS,
    *ministack.CHECKS,
    *dynalite.CHECKS,
    *microburst.CHECKS,
    *chaos.CHECKS,
]


class TooLong(Exception):
    pass


def _too_long(*_):
    raise TooLong


def _run(name, check, seconds):
    """None if the check holds, else why not; and what it noted."""
    world = World(name)
    why = "it did not say"
    signal.alarm(seconds)
    try:
        check(world)
        why = None
    except TooLong:
        why = f"not done within {seconds} s"
    except Failed as failed:
        why = str(failed)
    except Exception:
        why = traceback.format_exc()
    finally:
        signal.alarm(0)
        world.close(why is not None)
    return why, world.notes


def main(names):
    known = [name for name, *_ in [*judge.CHECKS, *CHECKS]]
    unknown = set(names) - set(known)
    if unknown:
        print(f"FAIL peers: no such check: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        print("0 passed, 1 failed")
        return 2
    signal.signal(signal.SIGALRM, _too_long)
    passed = failed = 0
    # Without a judge that can tell right from wrong no other check says anything.
    chosen = [check for check in CHECKS if not names or check[0] in names]
    for name, says, check, seconds in [*judge.CHECKS, *chosen]:
        began = time.monotonic()
        why, notes = _run(name, check, seconds)
        took = time.monotonic() - began
        if why is None:
            passed += 1
            print(f"ok   {name}: {says} ({took:.0f} s)")
        else:
            failed += 1
            print(f"FAIL {name}: {says} ({took:.0f} s)\n     {why}")
        for note in notes:
            print(f"       {note}")
        sys.stdout.flush()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
