"""A node as a shard of its cluster: what it answers to other nodes, for the partitions that they name (H8)."""
