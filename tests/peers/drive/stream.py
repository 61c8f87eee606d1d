"""A stream as a producer sees it: plain records and aggregates, every user record numbered."""

import threading
import time
from dataclasses import dataclass

import boto3
from aws_kinesis_agg.aggregator import RecordAggregator
from botocore.config import Config

KEYS = 1 << 128


def client(service, url, read_timeout=20):
    return boto3.client(
        service,
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(
            connect_timeout=5,
            read_timeout=read_timeout,
            retries={"max_attempts": 5, "mode": "standard"},
            parameter_validation=False,
        ),
    )


class Stream:
    def __init__(self, url, name="orders"):
        self.name = name
        self.kinesis = client("kinesis", url)

    def create(self, shards):
        self.kinesis.create_stream(StreamName=self.name, ShardCount=shards)
        self.settled()

    def settled(self, seconds=30):
        deadline = time.monotonic() + seconds
        while True:
            summary = self.kinesis.describe_stream_summary(StreamName=self.name)
            if summary["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE":
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} does not become ACTIVE")
            time.sleep(0.1)

    def shards(self):
        found, token = [], None
        while True:
            page = self.kinesis.list_shards(**({"NextToken": token} if token else {"StreamName": self.name}))
            found += page["Shards"]
            token = page.get("NextToken")
            if not token:
                return found

    def open_shards(self):
        """By hash range, so that neighbours can be merged."""
        shards = [shard for shard in self.shards() if "EndingSequenceNumber" not in shard["SequenceNumberRange"]]
        return sorted(shards, key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))

    def split(self, shard):
        low, high = (int(shard["HashKeyRange"][end]) for end in ("StartingHashKey", "EndingHashKey"))
        self.kinesis.split_shard(
            StreamName=self.name,
            ShardToSplit=shard["ShardId"],
            NewStartingHashKey=str((low + high) // 2 + 1),
        )
        self.settled()

    def merge(self, left, right):
        self.kinesis.merge_shards(
            StreamName=self.name, ShardToMerge=left["ShardId"], AdjacentShardToMerge=right["ShardId"]
        )
        self.settled()


@dataclass(frozen=True)
class Put:
    """Where a numbered user record was put, and when the stand-in had said so."""

    number: int
    shard: str
    position: tuple  # sequence number, sub-sequence number
    at: float  # by the monotonic clock


class Producer(threading.Thread):
    """Puts records until told to stop: each turn one plain record and one aggregate, at the next of 16 hash keys."""

    def __init__(self, stream, per_second=10, aggregate=5, padding=0):
        super().__init__(daemon=True)
        self.stream = stream
        self.pause = 1 / per_second
        self.aggregate = aggregate
        self.padding = "." * padding
        self.made = 0
        self.log = []  # of `Put`, only ever appended to
        self.error = None
        self._stop_asked = threading.Event()

    def run(self):
        turn = 0
        try:
            while not self._stop_asked.is_set():
                key = str((turn % 16) * (KEYS // 16))
                self.put_plain(key)
                if self.aggregate:
                    self.put_aggregate(key)
                turn += 1
                self._stop_asked.wait(self.pause)
        except Exception as error:  # told by `stop`, in the thread that checks
            self.error = error

    def payload(self, number):
        return f"{number} {self.padding}".encode()

    def put_plain(self, key):
        self._put("plain", key, self.payload(self.made), 1)

    def put_aggregate(self, key):
        aggregator = RecordAggregator()
        for number in range(self.made, self.made + self.aggregate):
            aggregator.add_user_record(f"key-{number}", self.payload(number), key)
        partition_key, _, data = aggregator.clear_and_get().get_contents()
        self._put(partition_key, key, data, self.aggregate)

    def _put(self, partition_key, key, data, count):
        placed = self.stream.kinesis.put_record(
            StreamName=self.stream.name, PartitionKey=partition_key, ExplicitHashKey=key, Data=data
        )
        at, sequence = time.monotonic(), int(placed["SequenceNumber"])
        self.log += [Put(self.made + sub, placed["ShardId"], (sequence, sub), at) for sub in range(count)]
        self.made += count

    def stop(self):
        self._stop_asked.set()
        self.join(60)
        if self.error:
            raise self.error
        return self.made
