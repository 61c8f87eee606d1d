"""One check's world: a folder, processes, a watch over what is delivered, a judge."""

import json
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

from .history import History, Watch
from .processes import CACHE, SHARDKEEPER, Failed, Process, clean_environment
from .stream import Producer, Stream
from .table import LeaseTable


class World:
    def __init__(self, name):
        self.folder = Path(tempfile.mkdtemp(prefix=f"shardkeeper-peers-{name}-"))
        self.processes = []
        self.watch = Watch()
        self.history = History(self.watch)
        self.producer = None
        self.stream = None
        self.table = None
        self.config = None
        self.notes = []

    def close(self, failed):
        if self.producer:
            self.producer._stop_asked.set()
        for process in reversed(self.processes):
            if process.alive():
                process.kill()
        self.watch.stop()
        if failed:
            for process in {process.log: process for process in self.processes}.values():
                print(f"--- {process.name}\n{process.tail(25)}")
        if failed or os.environ.get("PEERS_KEEP"):
            print(f"--- all logs: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def note(self, text):
        self.notes.append(text)

    def add(self, started):
        """Takes over an emulator's process; answers its URLs."""
        process, *urls = started
        self.processes.append(process)
        return urls[0] if len(urls) == 1 else urls

    def aws(self, kinesis, dynamodb):
        """Where the worker finds AWS; where the driver does, until told otherwise."""
        self.kinesis, self.dynamodb = kinesis, dynamodb
        self.stream, self.table = Stream(kinesis), LeaseTable(dynamodb)

    def configure(self, failover=3, **sets):
        """The workers' configuration file. `sets` holds sections with keys to change; `None` leaves one out."""
        sections = {
            "app": {"name": "orders-app"},
            "lease": {"region": "us-east-1", "endpoint": self.dynamodb, "failover": f"{failover}s"},
            "checkpoint": {"every": "500ms"},
            "handler": {"kind": "sink", "sink": "jsonl", "path": str(self.folder / "{worker}.jsonl")},
            "admin": {"listen": "off"},
            "log": {"level": "info,shardkeeper=debug,lease=debug"},
        }
        for section, keys in sets.items():
            sections.setdefault(section, {}).update(keys)
        lines = []
        for section, keys in sections.items():
            lines.append(f"[{section}]")
            lines += [f"{key} = {_toml(value)}" for key, value in keys.items() if value is not None]
        lines += ["[[stream]]", 'name = "orders"', 'region = "us-east-1"', f'endpoint = "{self.kinesis}"']
        self.config = self.folder / "worker.toml"
        self.config.write_text("\n".join(lines) + "\n")

    def worker(self, name, *sets):
        """Starts shardkeeper under this name. Its file goes on where an earlier process of the name ended."""
        self.watch.follow(name, self.folder / f"{name}.jsonl")
        arguments = [part for text in sets for part in ("--set", text)]
        return self._start(name, [SHARDKEEPER, "run", "--config", self.config, "--set", f'app.worker_id="{name}"', *arguments])

    def slow_worker(self, name, lines_per_second, *sets):
        """shardkeeper, configured to write to its standard output, which is read slowly: it is always in the middle of something."""
        arguments = [part for text in sets for part in ("--set", text)]
        process = self._start(
            name,
            [SHARDKEEPER, "run", "--config", self.config, "--set", f'app.worker_id="{name}"', *arguments],
            stdout=subprocess.PIPE,
        )
        gate = _Gate(process, self.watch, lines_per_second)
        gate.start()
        return process, gate

    def java(self, name):
        """Starts the Java KCL under this name."""
        self.watch.follow(name, self.folder / f"{name}.jsonl")
        classes = f"{CACHE}/java/classes:{CACHE}/java/dependency/*"
        return self._start(
            name,
            [
                "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                "-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
                "-cp", classes, "peers.Peer",
                "orders-app", "orders", name, self.kinesis, self.dynamodb, self.folder / f"{name}.jsonl", self.halt_file,
            ],
        )

    @property
    def halt_file(self):
        return self.folder / "halt"

    def _start(self, name, command, stdout=None):
        process = Process(name, command, self.folder, stdout=stdout)
        self.processes.append(process)
        return process

    def produce(self, **how):
        self.producer = Producer(self.stream, **how)
        self.producer.start()

    def put(self, first, count):
        """Puts numbers with our own `put`, as aggregates."""
        numbers = range(first, first + count)
        self.tool("put", "--aggregate=2KiB", "--json", text="".join(f"{number}\n" for number in numbers))
        self.history.extra.update(numbers)

    def tool(self, *arguments, text=None):
        """Runs a subcommand to its end; answers what it printed."""
        ended = subprocess.run(
            [SHARDKEEPER, arguments[0], "--config", self.config, *arguments[1:]],
            input=text, capture_output=True, text=True, timeout=60, env=clean_environment(), check=False,
        )
        if ended.returncode != 0:
            raise Failed(f"{' '.join(arguments)} exits {ended.returncode}: {ended.stdout}{ended.stderr}")
        return ended.stdout

    def same_rows(self):
        """What `leases` shows is what any other client reads from the table: owner, counter and position of each lease."""
        lines = [json.loads(line) for line in self.tool("leases", "--json").splitlines()]
        unreadable = [line for line in lines if line["kind"] == "unreadable"]
        if unreadable:
            raise Failed(f"unreadable rows: {unreadable}")
        shown = {line["key"]: line for line in lines if line["kind"] == "lease"}
        rows = self.table.leases()
        if shown.keys() != rows.keys():
            raise Failed(f"leases shows {sorted(shown)}, the table has {sorted(rows)}")
        for key, row in rows.items():
            line = shown[key]
            ours = (line["owner"], line["starting_hash_key"], sorted(line["parents"]))
            theirs = (row.get("leaseOwner"), row.get("startingHashKey"), sorted(row.get("parentShardId", [])))
            # Both run on while we look: counter and position may only have grown.
            if ours != theirs or line["counter"] > int(row["leaseCounter"]):
                raise Failed(f"leases shows {line}, the table has {row}")
        return len(shown)

    def finish(self, seconds):
        """Stops the producer and waits until all it put is delivered."""
        made = self.producer.stop()
        self.history.delivered(made, seconds)
        return made

    def kill(self, process):
        """SIGKILL, and its repeats from here on are explained."""
        process.kill()
        self.history.dies([process.name], self.table.positions())

    def stop(self, process, seconds=40, good=0):
        """SIGTERM; must end well. A JVM that is told to stop and does so exits 143."""
        code = process.stop(seconds)
        if code != good:
            raise Failed(f"{process.name} exits {code} when told to stop\n{process.tail()}")


class _Gate(threading.Thread):
    """Reads a worker's standard output at a given pace, or as it comes once opened."""

    def __init__(self, process, watch, lines_per_second):
        super().__init__(daemon=True)
        self._process, self._watch = process, watch
        self._pause = 1 / lines_per_second
        self._open = threading.Event()

    def open(self):
        self._open.set()

    def run(self):
        for line in self._process.child.stdout:
            self._watch.line(self._process.name, line)
            self._open.wait(self._pause)


def _toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }"
    return "'" + value + "'"
