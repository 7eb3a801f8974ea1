"""Readers for those who build corpora: an archive as a dataset of the libraries that they work with.

    archive ──► snapshot ──► shards ──┬──► datasets   an IterableDataset of Hugging Face
                                      ├──► torch      an IterableDataset of PyTorch, over workers and ranks
                                      ├──► ray        a Datasource of Ray Data
                                      └──► spark      a data source of PySpark

What flows in is the path of an archive and what to stream of it (`StreamOptions`). A snapshot is taken once, where the
dataset is made, and cut into shards (`shards`). A shard is a small value that goes to wherever it is read: it opens the
archive there, for reading, and streams its part. What flows out are rows with the fields that were asked for, in types
that every library knows (`columns`).

Guarantees are those of streams: all shards together are each capture of the snapshot once, whatever is written
meanwhile, and reading a shard again gives the same rows, in the same order, but for what was removed. Each library is
an extra: a module imports its own when it is imported, and nothing else does.
"""

from __future__ import annotations

from holdfast.corpus.shards import Shard, split

__all__ = ["Shard", "split"]
