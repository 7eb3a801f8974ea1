"""`python -m benchmarks archive`: records in, found, and out again, Holdfast beside the tools that people use today.

A directory of pages goes in. `crawl` makes the WARC files of two crawls of it, once for a run; `run` gives every
subject those same files, each in a process of its own; `ours` and `peers` do the work, `cdxj_file` and `captures` the
lookups, `large` the record that no memory holds. Figures come back, `target` judges them, `report` and `chart` show
them.

The names of the workloads and what they do are fixed for good: figures of different commits stay comparable.
Programs under licences that ours does not go with are run as programs, never imported.
"""
