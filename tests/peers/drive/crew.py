"""Workers that are kept running whatever is done to them, and whether each of them ended as it should."""

import re
import signal
import time
from dataclasses import dataclass
from datetime import datetime

from .processes import Process

DEADLINE = 10  # seconds a worker may take to stop, by its configuration
DEAF = 2  # seconds after its start in which a process may have no ear for signals yet
LOST = re.compile(r"^(\S+)Z .* lease lost lease=(\S+) ", re.MULTILINE)
LEASE_OUTLIVES = 1.0  # seconds a worker may be frozen for and keep its leases: the next renewal is due 1.2 s after the last, and that is believed in for 2.85 s


@dataclass
class Member:
    process: Process
    since: float
    wakes: float | None = None  # when, if it is frozen
    told: float | None = None  # when to stop, if it was
    killed: bool = False

    @property
    def name(self):
        return self.process.name

    def strikable(self):
        """Whether it runs, and nothing that was done to it is still going on."""
        ready = time.monotonic() - self.since > DEAF
        return ready and self.process.alive() and self.wakes is None and self.told is None


class Crew:
    def __init__(self, world, size):
        self._world = world
        self._size = size
        self._members = []
        self._started = 0
        self._logs = {}  # by name
        self.violations = []

    def running(self):
        return [member for member in self._members if member.process.alive() and member.told is None]

    def leaving(self):
        return [member for member in self._members if member.told is not None]

    def strikable(self):
        return [member for member in self._members if member.strikable()]

    def start(self, name=None):
        """Starts one more, under a new name or that of a process that has ended."""
        if not name:
            self._started += 1
            name = f"worker-{self._started}"
        process = self._world.worker(name)
        self._logs[name] = process.log
        self._members.append(Member(process, time.monotonic()))

    def kill(self, member):
        member.killed = True
        self._world.kill(member.process)

    def tell(self, member):
        """SIGTERM: leases and positions are handed over, nothing is repeated."""
        member.told = time.monotonic()
        member.process.signal(signal.SIGTERM)

    def freeze(self, member, seconds):
        member.wakes = time.monotonic() + seconds
        member.process.signal(signal.SIGSTOP)
        if seconds > LEASE_OUTLIVES:
            self._world.history.dies([member.name], self._world.table.positions(), "freeze")

    def tend(self, excused):
        """Wakes who was frozen long enough and sees who has ended. `excused(since)`: may a stop since then have failed?"""
        now = time.monotonic()
        for member in list(self._members):
            if member.wakes is not None and member.wakes <= now:
                self._wake(member)
            if not member.process.alive():
                self._members.remove(member)
                self._ended(member, excused)
            elif member.told is not None and now - member.told > 2 * DEADLINE:
                self.violations.append(f"{member.name} has not ended {2 * DEADLINE} s after it was told to stop")
                self.kill(member)

    def fill(self):
        """Starts what is missing."""
        for _ in range(self._size - len(self.running())):
            self.start()

    def dismiss(self):
        """Everybody is told to stop, and must do so well."""
        for member in self._members:
            if member.told is None:
                self.tell(member)
        while self._members:
            self.tend(lambda since: False)
            time.sleep(0.05)

    def losses(self):
        """Who lost which lease when, as their logs say; by the monotonic clock."""
        ahead = time.time() - time.monotonic()
        for name, log in self._logs.items():
            for at, shard in LOST.findall(log.read_text(errors="replace")):
                yield name, shard, datetime.fromisoformat(at + "+00:00").timestamp() - ahead

    def wake(self):
        for member in self._members:
            if member.wakes is not None:
                self._wake(member)

    def _wake(self, member):
        member.wakes = None
        member.process.signal(signal.SIGCONT)

    def _ended(self, member, excused):
        code = member.process.child.returncode
        if member.killed or (member.told is not None and code == 0):
            return
        if code == 1 and member.told is not None and excused(member.told):
            self._world.history.dies([member.name], self._world.table.positions(), "deadline")
            return
        asked = "when told to stop" if member.told is not None else "unasked"
        self.violations.append(f"{member.name} ended {asked} with {code}")
