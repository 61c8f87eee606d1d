"""The lease table as any DynamoDB client sees it."""

from boto3.dynamodb.types import TypeDeserializer

from .history import END
from .stream import client

SENTINELS = {"TRIM_HORIZON": -1, "LATEST": -1, "AT_TIMESTAMP": -1, "SHARD_END": END}
_plain = TypeDeserializer()


class LeaseTable:
    def __init__(self, url, name="orders-app"):
        self.name = name
        self.dynamodb = client("dynamodb", url)

    def rows(self):
        """All rows by key, values as plain Python; empty if there is no table yet."""
        rows, start = {}, {}
        try:
            while True:
                page = self.dynamodb.scan(TableName=self.name, ConsistentRead=True, **start)
                for item in page["Items"]:
                    row = {key: _plain.deserialize(value) for key, value in item.items()}
                    rows[row["leaseKey"]] = row
                if "LastEvaluatedKey" not in page:
                    return rows
                start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
        except self.dynamodb.exceptions.ResourceNotFoundException:
            return {}

    def leases(self):
        return {key: row for key, row in self.rows().items() if row.get("entityType", "LEASE") == "LEASE" and "leaseCounter" in row}

    def owners(self):
        """Who reads how many unfinished shards; a lease on its way to another counts for neither."""
        shares = {}
        for row in self.leases().values():
            if row.get("checkpoint") != "SHARD_END" and row.get("leaseOwner") and not row.get("checkpointOwner"):
                shares[row["leaseOwner"]] = shares.get(row["leaseOwner"], 0) + 1
        return shares

    def shares(self, worker):
        return self.owners().get(worker, 0)

    def leader(self):
        lock = self.rows().get("Leader", {})
        return None if lock.get("isReleased") else lock.get("ownerName")

    def positions(self):
        """The stored position of each shard, comparable with that of a delivery."""
        positions = {}
        for key, row in self.leases().items():
            text = row.get("checkpoint", "TRIM_HORIZON")
            sequence = SENTINELS[text] if text in SENTINELS else int(text)
            positions[key] = (sequence, int(row.get("checkpointSubSequenceNumber", 0)))
        return positions
