"""Random faults from a seed: workers, shards and both stand-ins are struck while records are put, and every promise is judged.

What is required whatever strikes: nothing is lost; per shard first deliveries are in order, children after their
parents; a stored position never passes a record that is in no file, never goes back, and what it covers is never
delivered again; nobody ends unasked. A record may be delivered twice only if between the two

* its first deliverer was killed, or was frozen for so long that a renewal came too late, before it had stored it, or
* its first deliverer lost that lease, by its own log, while the table was in trouble, so that it could neither renew
  nor store. That may be up to a failover time after the trouble: somebody has found the lease expired and takes it.

Faults of Kinesis, splits, merges, new workers, polite stops and hand-overs excuse no repeat, in the midst of trouble
either. A worker that is told to stop exits 0; it may exit 1, by its deadline, only if the table was in trouble meanwhile.

The same seed draws the same faults at the same times; what the processes make of them differs from run to run.
"""

import os
import time

from . import emulators, fleet, verdict
from .crew import DEADLINE, DEAF, Crew
from .faults import FAULTS, Proxy, rule
from .plan import pick, plan
from .processes import Failed
from .stored import Stored

SEED = int(os.environ.get("PEERS_CHAOS_SEED", "7"))
_MINUTES = os.environ.get("PEERS_CHAOS_MINUTES")
LONG, SHORT = (float(_MINUTES) * 60,) * 2 if _MINUTES else (75.0, 45.0)
FAILOVER = 3
WORKERS, MOST_WORKERS = 3, 5
FEWEST_SHARDS, MOST_SHARDS = 2, 6
ARRIVES = 40  # seconds within which all is delivered once all is well again
PROCESSES = ["kill", "kill", "term", "term", "freeze", "freeze_long", "start"]
RESHARDS = ["split", "split", "merge"]


class Chaos:
    def __init__(self, world, proxies, kinds, seconds):
        self.world = world
        self.proxies = proxies
        self.seconds = seconds
        self.strikes = plan(SEED, seconds, kinds)
        self.crew = Crew(world, WORKERS)
        self.stored = Stored(world.watch)
        self.struck = []  # (when, kind)
        self.lost = []
        self.violations = []

    def run(self):
        self.crew.fill()
        open_shards = len(self.world.stream.open_shards())
        fleet.even(self.world, [f"worker-{number}" for number in range(1, WORKERS + 1)], open_shards, 60)
        began = time.monotonic()
        for strike in self.strikes:
            self.watch(began + strike.at)
            self.strike(strike)
        self.watch(began + self.seconds)
        self.settle()

    def watch(self, until):
        """Looks until then, at least once."""
        while True:
            self.look()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.2))

    def look(self):
        self.crew.tend(self.world.history.troubled_since)
        self.stored.look(self.world.table.positions(), self.world.producer.log)

    def strike(self, strike):
        """Does it. Whom earlier strikes have ended is replaced first; if nobody can be struck, one more starts instead."""
        victims = self.crew.strikable()
        self.crew.fill()
        if strike.kind in FAULTS:
            self.fault(strike)
        elif strike.kind in RESHARDS:
            self.reshard(strike)
        elif strike.kind == "start" or not victims:
            if len(self.crew.running()) < MOST_WORKERS:
                self.crew.start()
                self.note("start")
        else:
            self.hit(strike, pick(victims, strike.which))

    def hit(self, strike, victim):
        self.note(strike.kind)
        if strike.kind == "kill":
            self.crew.kill(victim)
            if strike.how < 0.5:
                self.crew.start(victim.name)
        elif strike.kind == "term":
            self.crew.tell(victim)
        elif strike.kind == "freeze":
            self.crew.freeze(victim, 0.3 + 2.0 * strike.how)
        else:
            self.crew.freeze(victim, FAILOVER + 0.5 + 5.0 * strike.how)

    def fault(self, strike):
        fault = FAULTS[strike.kind]
        made, seconds = rule(fault, strike.which, strike.how)
        if fault.service == "dynamodb":
            now = time.monotonic()
            self.world.history.troubled(now, now + seconds + fault.lingers + FAILOVER, "table")
        self.note(strike.kind)
        self.proxies[fault.service].make(strike.kind, made)

    def reshard(self, strike):
        stream = self.world.stream
        shards = stream.open_shards()
        split = len(shards) < MOST_SHARDS if strike.kind == "split" else len(shards) <= FEWEST_SHARDS
        self.note("split" if split else "merge")
        if split:
            stream.split(pick(shards, strike.which))
        else:
            stream.merge(*pick(list(zip(shards, shards[1:])), strike.which))

    def note(self, kind):
        self.struck.append((time.monotonic(), kind))
        self.mark(kind)

    def mark(self, what):
        """Leaves a trace in the time of the workers' logs."""
        with (self.world.folder / "strikes.log").open("a") as log:
            log.write(f"{time.strftime('%H:%M:%S', time.gmtime())} {what}\n")

    def settle(self):
        """All is well again: what is on its way must arrive, and everybody stops politely."""
        self.mark("all is well again")
        for proxy in self.proxies.values():
            proxy.calm()
        self.crew.wake()
        self.crew.fill()
        made = self.world.producer.stop()
        patience = time.monotonic() + ARRIVES
        self.watch(time.monotonic() + DEAF)
        while (self.world.history.missing(made) or self.crew.leaving()) and time.monotonic() < patience:
            self.watch(time.monotonic() + 0.5)
        self.lost = self.world.history.missing(made)
        self.mark(f"{len(self.lost)} records missing")
        names = [member.name for member in self.crew.running()]
        self.holds(lambda: fleet.even(self.world, names, len(self.world.stream.open_shards()), ARRIVES))
        self.mark("everybody is told to stop")
        self.crew.dismiss()
        self.look()
        self.mark("all have stopped")

    def holds(self, check):
        try:
            check()
        except Failed as failed:
            self.violations.append(str(failed))


def again(name, seconds):
    """The command that draws the same faults once more."""
    return f"PEERS_CHAOS_SEED={SEED} PEERS_CHAOS_MINUTES={seconds / 60:g} tests/peers/run {name}"


def through(world, name, seconds, kinesis, dynamodb, shards, resharded):
    """On these stand-ins for so long; the workers' calls go through proxies, the driver's do not."""
    world.aws(kinesis, dynamodb)
    world.stream.create(shards)
    world.kinesis = world.add(emulators.microburst(world.folder, "kinesis", kinesis, []))
    world.dynamodb = world.add(emulators.microburst(world.folder, "dynamodb", dynamodb, []))
    world.configure(failover=FAILOVER, shutdown={"deadline": f"{DEADLINE}s"})
    world.produce(per_second=5, aggregate=5)
    kinds = PROCESSES + (RESHARDS if resharded else []) + list(FAULTS)
    proxies = {"kinesis": Proxy(world.kinesis), "dynamodb": Proxy(world.dynamodb)}
    chaos = Chaos(world, proxies, kinds, seconds)
    chaos.run()
    verdict.tell(chaos, resharded, {"peers": name, "seed": SEED, "seconds": seconds, "again": again(name, seconds)})


def kinesis_local_and_dynalite(world):
    """kinesis-local reshards well, and dynalite is a table of its own."""
    kinesis = world.add(emulators.kinesis_local(world.folder))
    dynamodb = world.add(emulators.dynalite(world.folder, creating_ms=500))
    through(world, "chaos", LONG, kinesis, dynamodb, shards=3, resharded=True)


def ministack_for_both(world):
    """Never resharded: ministack deletes the parents with their records."""
    url = world.add(emulators.ministack(world.folder))
    through(world, "chaos-ministack", SHORT, url, url, shards=4, resharded=False)


def _check(name, stand_ins, check, seconds):
    says = f"{stand_ins} behind microburst 0.10.0: random faults for {seconds:g} s, `{again(name, seconds)}`"
    return name, says, check, int(seconds) + 240


CHECKS = [
    _check("chaos", "kinesis-local 0.6.2 and dynalite 4.0.0", kinesis_local_and_dynalite, LONG),
    _check("chaos-ministack", "ministack 1.5.33", ministack_for_both, SHORT),
]
