"""Readers for corpus builders: an archive as a dataset of the libraries they use.

    archive ──► snapshot ──► shards ──┬──► datasets   an IterableDataset of Hugging Face
                                      ├──► torch      an IterableDataset of PyTorch, over workers and ranks
                                      ├──► ray        a Datasource of Ray Data
                                      └──► spark      a data source of PySpark

In: the path of an archive and a selection (`StreamOptions`). The snapshot is taken once, where the dataset is created,
and split into shards (`shards`). A shard is a small value that is sent to its reader, which opens the archive for
reading and streams its part. Out: rows with the requested fields, in types that every library supports.

The guarantees are those of streams: the shards together contain each capture of the snapshot exactly once, whatever is
written meanwhile; reading a shard again gives the same rows in the same order, except for removed captures. Each
library is an extra, imported only by its own module.
"""

from __future__ import annotations

from holdfast.corpus.shards import Shard, split

__all__ = ["Shard", "split"]
