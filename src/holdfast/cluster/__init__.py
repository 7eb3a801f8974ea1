"""Many machines, one archive: nodes that share out the URL space and keep each other's records (H1-H3, H6).

A cluster is many ordinary archives. The records of a partition are a set that only merges, so copies need no fencing.
Only one thing is fenced: who may fetch. That is what `membership` decides.
"""
