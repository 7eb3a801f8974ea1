"""Many machines, one archive: nodes that share out the URL space and keep each other's records (H1-H3, H6).

A cluster is many ordinary archives. The records of a partition are a set that only merges, so copies need no fencing.
Only one thing is fenced: who may fetch.

    membership/   who belongs; who holds a partition, and who may fetch for it: leases and claims in NATS JetStream
    copies/       records reach their holders, are compared, repaired and removed on all nodes
    crawl/        one crawl: found links travel through a log to the node that owns them
    answers/      any node answers for all: requests forwarded to a holder, or asked of all nodes and merged

`node` is the process of one machine, which runs all of these.
"""
