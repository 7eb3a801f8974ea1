"""The store: every content once, never lost.

A content comes in through `store.contents`. `store.put` signs it (`signature`) and looks for a duplicate: in its home
volume (`placement`), then in those that the bloom filter names. A duplicate becomes one more reference. A new content
is encoded (`codec`) and goes to its home volume as a block (`block`), with replicas elsewhere if so configured. It
comes out by its contentkey, straight from the volume named there.

Guarantees:
- what was acknowledged survives kill -9 and power loss; what was not is there whole or not at all;
- a stored byte that changes is noticed when it is read, and by `check`; `repair` restores it from a copy;
- deleting removes one reference; the bytes go with the last one, at the next compaction;
- everything but segments and block files is derived and can be rebuilt.

`block`, `codec`, `signature` and `identity` describe bytes; `volume` is the protocol of all volumes. Beyond:

    volumes/       one place that holds blocks: log, hashed log, hash, tree, object store, remote
    server/        a volume over TCP
    store/         many volumes as one
    maintenance/   what keeps volumes sound and balanced
"""
