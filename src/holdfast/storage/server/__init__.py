"""Volumes on other machines (W11, W12): a server that gives out a volume, and a client that is one.

What a `RemoteVolume` (`client`) is asked becomes frames (`wire`, `reader`) on a connection (`link`, kept in a `pool`)
whose both ends have proven that they know the same secret (`handshake`). The `server` lets connections in (`door`) and
reads them on an event loop (`connection`, `dispatch`): requests are answered there and then by the `service`; commits
of all clients are gathered, made durable together by a thread (`committing`) and answered after that. One process may
serve several volumes (`serving`). A client whose answer was lost asks again; what it gave up is taken back when the
server returns (`doubts`).

Guarantees, beside those of any volume:
- a commit happens once, however often a connection breaks, messages arrive twice, or the server is killed;
- an answer to a commit means that its operations are durable on the server's disk;
- who does not know the secret, or has no certificate, changes nothing, and costs the server a bounded amount of memory.

docs/protocol/volume.md describes every byte.
"""
