"""Copies of records on several nodes: pulled, compared, repaired, dropped and removed (H6, N2, N8, N10, N13).

    a record is added on node A, in A's batch 202611.a           its origin: 202611.a-0000004711
        │ `partitions`  its registered domain names a partition, and the partition its k holders
        ▼
    holder B asks A for "your records after serial s in these partitions" (`protocol`, `pull`)
        │ entries and signatures, then only the blocks that B lacks; added as ordinary records of 202611.b
        ▼
    B asks for what lies behind: that acknowledges the record; with `ack_copies` of them it is safe
        │ `origins` knows every record by its origin, and keeps digests of partitions, batches and ranges of serials
        ▼
    holders compare digests: at start, after each return, every hour (`repair`); what one lacks, it pulls
        │
        ▼
    a node that holds a record and need not drops it, once all k holders say that they have it

Guarantees. The records of a partition are a set that only merges, so each step is idempotent: it can be killed at any
moment, and repeated. What is removed is removed everywhere, before a node pulls or serves (`removal`), so nothing
comes back. Everything here is derived from the batches or found again by comparing, but for the log of removals.
"""
