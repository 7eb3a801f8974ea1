"""`python -m benchmarks webstore`: the six experiments of the Webstore paper, beside network file systems, in one run.

Pages go in, one document each. `subjects` names what is compared: Holdfast's volume servers, an NFSv3 server, sshfs,
WebDAV and SeaweedFS, each of them real servers on loopback, and a bare reference server in this Python. `workload`
lists the experiments as *lives*: servers are started on empty directories, clients take steps (store, retrieve, store
again, delete), and everything is stopped. `machines` are the clients: processes with a few threads each, the same for
every subject, one document per request. `life` carries one out, `run` all of them. Figures come back, `target` judges
them, `report` and `chart` show them, in the shape of the paper's figures 7 to 12.

Holdfast stands there twice: with single calls, which is the fair form, and with batches, which only it has.
"""
