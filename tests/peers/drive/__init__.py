"""The driver of the peers: shardkeeper against programs no one here wrote."""
