"""`holdfast bench storage`: named workloads over a corpus, Holdfast beside its peers in one run.

A directory of documents goes in. `corpus` chooses the documents, `run` plans one task for every subject, number of
callers and group of workloads, and `child` carries each task out in a fresh process, so that memory, caches and leaks
of one subject never touch another. `measure` holds the clock. Measurements come back, `target` judges them, `report`
and `chart` show them.

The names of the workloads and what they do are fixed for good: figures of different commits stay comparable.
A subject that cannot run is reported with its reason, never left out in silence.
"""
