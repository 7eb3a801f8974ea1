"""Studies: what an archive knows about the web, as tables and charts.

    catalog, index ──► partial result ──► merged ──► finished: tables in Arrow, a chart
                       of one archive     of several

| study             | question                                                                                      |
|-------------------|-----------------------------------------------------------------------------------------------|
| `duplicates`      | how many captures repeat a content: within a crawl, and of earlier ones (W16)                 |
| `near_duplicates` | how many pages have almost the same text, and which (N11)                                     |
| `change`          | how fast pages change, and how long they live (I7)                                            |
| `composition`     | what the archive is made of: types, sizes, links, compression, change a day                   |
| `media`           | what there is besides pages, with sizes, dimensions and durations (I8)                        |
| `topic`           | how strongly topics are present over time, when they burst, and who mentions them (I6)        |

`sample` draws a test collection that represents the archive, and `sample_again` makes one again by its manifest (I9).

A study reads the catalog in the order of its keys, or the tables of the index. What it gathers of one archive is a
partial result: a directory of Parquet files, whose rows are counts and not captures where that is possible. Partial
results of several archives are merged and finished together, so that the nodes of a cluster can each study what they
serve. Gathering, merging and finishing run in DuckDB on disk: memory does not grow with the archive.

A study reads only. It sees the captures that `permits` lets through, and says in `notes` what it left out.
"""

from __future__ import annotations

from holdfast.study.change_study import change
from holdfast.study.composition_study import composition
from holdfast.study.duplicate_study import duplicates
from holdfast.study.media_study import media
from holdfast.study.near_duplicate_study import near_duplicates
from holdfast.study.result import StudyResult
from holdfast.study.samples.options import SampleOptions
from holdfast.study.samples.sample import sample, sample_again
from holdfast.study.topic_study import topic

__all__ = [
    "SampleOptions",
    "StudyResult",
    "change",
    "composition",
    "duplicates",
    "media",
    "near_duplicates",
    "sample",
    "sample_again",
    "topic",
]
