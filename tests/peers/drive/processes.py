"""Child processes: started, watched and ended by their own id, with a log each."""

import ctypes
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

CACHE = Path(os.environ["PEERS_CACHE"])
SHARDKEEPER = os.environ["SHARDKEEPER_BIN"]
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class Failed(Exception):
    """A check does not hold; the text says what was expected and what was seen."""


def _die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """One child. Its standard error, and output unless piped, go to the log."""

    def __init__(self, name, command, folder, cwd=None, env=None, stdout=None):
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(
                [str(part) for part in command],
                cwd=cwd,
                env={**clean_environment(), **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=stdout or log,
                stderr=log,
                preexec_fn=_die_with_parent,
            )

    def alive(self):
        return self.child.poll() is None

    def signal(self, number):
        if self.alive():
            self.child.send_signal(number)

    def wait(self, seconds):
        """The exit code; fails if there is none in time."""
        try:
            return self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} has not ended within {seconds} s") from None

    def stop(self, seconds):
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self):
        self.signal(signal.SIGKILL)
        return self.wait(10)

    def text(self):
        return self.log.read_text(errors="replace")

    def tail(self, lines=40):
        return "\n".join(self.text().splitlines()[-lines:])


def clean_environment():
    """Ours without anything that would lead an SDK elsewhere."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("AWS_", "SHARDKEEPER_", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"))
        and not key.lower().endswith("_proxy")
    }
    return {
        **kept,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def until(what, seconds, done, process=None):
    """Waits until `done()` is true and returns what it answered."""
    deadline = time.monotonic() + seconds
    while True:
        answer = done()
        if answer:
            return answer
        if process and not process.alive():
            raise Failed(f"{process.name} ended while waiting for: {what}\n{process.tail()}")
        if time.monotonic() > deadline:
            raise Failed(f"not within {seconds} s: {what}")
        time.sleep(0.1)


def listening(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def answers(url):
    """Whether anything speaks HTTP there, whatever it says."""
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
