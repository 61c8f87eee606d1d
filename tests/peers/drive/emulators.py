"""The programs that stand in for AWS: how each is started, and when it is ready."""

import json
import sys

from .processes import CACHE, SHARDKEEPER, Process, answers, free_port, listening, until
from .stream import client

START = 60


def local(folder, *arguments):
    """`shardkeeper local`; answers the process, the URL of Kinesis, the URL of DynamoDB."""
    kinesis, dynamodb = free_port(), free_port()
    process = Process(
        "local",
        [SHARDKEEPER, "local", "--kinesis", f"127.0.0.1:{kinesis}", "--dynamodb", f"127.0.0.1:{dynamodb}", *arguments],
        folder,
    )

    def said():
        return next((line for line in process.text().splitlines() if line.startswith("{")), None)

    first = until("the embedded AWS says where it listens", START, said, process)
    urls = json.loads(first)
    return process, urls["kinesis"], urls["dynamodb"]


def kinesis_local(folder):
    port = free_port()
    home = CACHE / "npm" / "node_modules" / "kinesis-local"
    process = Process(
        "kinesis-local",
        ["node", "main.js"],
        folder,
        cwd=home,  # it reads its certificate from there
        env={
            "KINESIS_MOCK_PLAIN_PORT": str(port),
            "KINESIS_MOCK_TLS_PORT": str(free_port()),
            "LOG_LEVEL": "WARN",
        },
    )
    until("kinesis-local listens", START, lambda: listening(port), process)
    return process, f"http://127.0.0.1:{port}"


def ministack(folder):
    port = free_port()
    process = Process(
        "ministack",
        [CACHE / "ministack" / "bin" / "ministack"],
        folder,
        cwd=folder,
        env={"GATEWAY_PORT": str(port), "PERSIST_STATE": "0"},
    )
    until("ministack answers", START, lambda: answers(f"http://127.0.0.1:{port}/_ministack/health"), process)
    return process, f"http://127.0.0.1:{port}"


def dynalite(folder, creating_ms):
    port = free_port()
    process = Process(
        "dynalite",
        [
            "node",
            CACHE / "npm" / "node_modules" / "dynalite" / "cli.js",
            "--host", "127.0.0.1",
            "--port", port,
            "--createTableMs", creating_ms,
        ],
        folder,
    )
    until("dynalite listens", START, lambda: listening(port), process)
    return process, f"http://127.0.0.1:{port}"


def microburst(folder, service, upstream, rules):
    """A proxy in front of `upstream` that makes faults by `rules`."""
    port = free_port()
    name = f"microburst-{service}"
    config = folder / f"{name}.yml"
    config.write_text(json.dumps({"rules": rules}))  # JSON is YAML
    process = Process(
        name,
        [
            sys.executable, "-m", "microburst",
            "--host", "127.0.0.1", "--port", port, "--upstream", upstream, "--config", config, "--no-resign",
        ],
        folder,
    )
    until("microburst listens", START, lambda: listening(port), process)
    url = f"http://127.0.0.1:{port}"
    # Its first request of a service loads all models of AWS and takes many seconds.
    warm = client(service, url, read_timeout=60)
    warm.list_tables() if service == "dynamodb" else warm.list_streams()
    return process, url
