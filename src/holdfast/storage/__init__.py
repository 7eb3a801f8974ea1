"""The store: every content once, never lost.

A content flows in through `contents`. `storing` signs it (`signature`) and looks for a duplicate: in its home volume
(`placement`), then in those that the `filter` names. A duplicate becomes one more reference. A new content is encoded
(`codec`, `encoding`) and goes to its home volume as a block (`block`), with copies elsewhere if asked (`replicas`).
It comes out by its contentkey, straight from the volume named there.

Guarantees:
- what was acknowledged survives kill -9 and power loss; what was not is there whole or not at all;
- a stored byte that changes is noticed when it is read, and by `check`; `repair` restores it if there is a copy;
- deleting takes away one reference; the bytes go with the last one, at the next compaction;
- everything but segments and block files is derived and can be rebuilt.

In order of dependency: `block`, `segment`, `layout`, `identity` name and describe bytes. `volume` is the protocol that
all volumes speak. `keydir` and `ledger` know where blocks are; `commit` shares syncs among threads; `shield` keeps
Ctrl-C out. `organizations` are the ways to lay out a volume, `opening` opens one, here or elsewhere. `instance` joins
volumes: it asks them side by side (`asking`), knows which may hold a signature (`filter`, `following`), and finds all
blocks of a content (`holdings`). Its `gate` keeps those who count apart from who moves blocks in this process; other
processes are reckoned with at every step. `duplicates`, `storing`, `replicas`, `deleting` and `moving` are those steps.
`contents`, `migrate`, `rebalance`, `restoring`, `merging`, `training`, `check` and `repair` are made of them.
"""
