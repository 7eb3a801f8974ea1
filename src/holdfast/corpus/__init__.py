"""Readers for corpus builders: an archive as a dataset of the libraries they use.

    archive ──► snapshot ──► shards ──┬──► datasets   an IterableDataset of Hugging Face
                                      ├──► torch      an IterableDataset of PyTorch, over workers and ranks
                                      ├──► ray        a Datasource of Ray Data
                                      └──► spark      a data source of PySpark

What flows in: the path of an archive and a selection (`StreamOptions`). A snapshot is taken once, where the
dataset is created, and split into shards (`shards`). A shard is a small value, sent to where it is read: it opens the
archive there, for reading, and streams its part. What flows out: rows with the requested fields, in types
that every library knows.

Guarantees are those of streams: all shards together are each capture of the snapshot once, whatever is written
meanwhile, and reading a shard again gives the same rows in the same order, except for what was removed. Each library is
an extra, imported only by its own module.
"""

from __future__ import annotations

from holdfast.corpus.shards import Shard, split

__all__ = ["Shard", "split"]
