"""Streams: every capture of a snapshot exactly once, in bulk, resumable (B9, B11, N5, I5).

In: options that select captures and an order, or the token of an earlier stream. A snapshot is taken: for each batch,
the first serial number beyond it. The order walks batches or catalog from a position, in short steps that hold nothing
open (`order`); a filter drops unwanted captures before they are read (`filter`); entries and contents are read many at
a time (`page_reader`), ahead of the consumer, in a thread (`prefetch`), and decoded in others (`stream`). Out: batches
of pages, each with a token (`batch`, `token`), in formats that other programs read (`outputs`). Consumers of one
snapshot may share a scan (`multicast`), and processes may share the work (`work_queue`).

Guarantees. A stream delivers each capture of its snapshot exactly once, whatever is written, removed, compacted, sealed
or reindexed meanwhile, by this process or another. Captures removed before their delivery are not delivered. A token
resumes exactly where it was issued, any number of times, after any restart. Unreadable captures are named, counted and
left out, unless the stream is strict. Memory is bounded by the size of a batch.
"""

from __future__ import annotations

from holdfast.streams.batch import StreamBatch
from holdfast.streams.multicast import Consumer, Multicast, MulticastOptions
from holdfast.streams.options import StreamOptions
from holdfast.streams.page import Page
from holdfast.streams.page_reader import StreamFault
from holdfast.streams.stream import Stream

__all__ = ["Consumer", "Multicast", "MulticastOptions", "Page", "Stream", "StreamBatch", "StreamFault", "StreamOptions"]
