"""The store: every content once, never lost.

Contents enter through `store.contents`. `store.put` signs a content (`signature`) and looks for a duplicate: in its
home volume (`placement`), then in the volumes that the bloom filter names. A duplicate becomes one more reference. A
new content is encoded (`codec`) and written to its home volume as a block (`block`), with replicas elsewhere if
configured. It is read by its contentkey, straight from the volume named there.

Guarantees:
- acknowledged contents survive kill -9 and power loss; others are stored whole or not at all;
- a changed byte is detected when it is read, and by `check`; `repair` restores it from a copy;
- a delete removes one reference; after the last one, compaction removes the bytes;
- everything but segments and block files is derived and can be rebuilt.

`block`, `codec`, `signature` and `identity` describe bytes; `volume` is the protocol of all volumes. Beyond:

    volumes/       one place that holds blocks: log, hashed log, hash, tree, object store, remote
    server/        a volume over TCP
    store/         many volumes as one
    maintenance/   what keeps volumes sound and balanced
"""
