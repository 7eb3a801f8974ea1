"""One crawl over all nodes (H1, H4, H5, I1).

    key crawl.<name>          the job: seeds, limits, visit, run, state. Any node may write it
    key credit.<name>         how much of the job's limits each node has drawn
    log.<name>.<partition>    what was found in a partition and what became of it, in one stream

Each node runs the crawl for the partitions that it owns: `share` is what the crawl sees of it. What a crawl finds and
finishes goes into rows of the frontier, the `outbox`, in the same commit as the pages it was found on; `exchange` then
appends it to the log, and reads what others have appended for the partitions of this node. Rows that another node
needs stay until all holders have them in a checkpoint, so nothing lives in NATS alone.

Whoever claims a partition reads its log from its own last position. A URL counts as fetched if the log says so *and*
the capture is in this node's archive. The log says so only after it has everything that was found on the page. If the
archive has the capture and the log does not say so, the page is read there for its links; all others are fetched. So
nothing is missed, and what is fetched again is what was under way, or not yet copied, at a death.

The log does not grow for ever: the owner of a partition writes `checkpoint`s, records that the holders copy, and then
deletes what they have from NATS. If NATS loses its data, checkpoints are the beginning of the next log.

The end: every live node reports that it has nothing to do, and the last message that the log had then. If all name the
same number and together own all partitions, nothing can be under way.
"""
