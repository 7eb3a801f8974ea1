"""`python -m benchmarks webbase`: the WebBase paper's tables and figures for this machine (B13).

WebBase's authors ran a simulator, which made a disk do what an organization would do, and a prototype. Here the
organizations are there, so nothing is simulated: pages of a corpus, encoded before the clock starts, go through volumes
of organization log, hash and hashed-log (`volumes`: table 3); archives of the batch scheme are filled, crawled again in
part, and updated (`updates`: tables 4 and 5, figure 6). Only figures 4 and 5 are computed, as in the paper, from the
sizes of real pages and the time that this disk takes for a read of a bucket (`buckets`, `disk`).

`paper` has what the authors found, `run` gathers what is found here, `findings` sets one against the other, `report`
and `chart` show it. Reads are measured *cold*, with the caches of the system dropped, and *warm*; the paper's were
cold.
"""
