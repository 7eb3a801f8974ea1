"""The same answers from any node (H8): what one machine answers, all nodes answer together.

    a request about one URL      `routes` names the node that serves it; that node answers
    a request about many         `scatter` asks every node for the partitions that it answers for, as a `shard`
        │ captures, records, outline, search, sql, streams, export, studies
        ▼
    one answer                   merged by the node that was asked (`whole_archive`); what is missing is named

The node process writes the table of routes into its directory; its web workers follow it. `index_service` keeps the
index of a node up to date.
"""
