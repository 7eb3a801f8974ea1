"""`python -m benchmarks replay`: one set of WARC files, served by Holdfast and by pywb, and asked by wrk.

The files of `bench.archive.crawl` go in: two captures of every page. `servers` knows how each server is given the files
and how it is started at its best; `running` starts it and looks at its processes. `checking` asks a sample and compares
what comes with what was put in, before any clock runs. `workload` lists what is asked for, `wrk` asks. Figures come
back, `target` judges them, `report` and `chart` show them. `soak` asks Holdfast alone very many times and looks at its
memory meanwhile.

All servers are up for the whole run and are measured in turns, on the machine that also asks. pywb is run as a program,
in an environment of its own, and never imported.
"""
