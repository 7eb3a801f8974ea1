"""Volumes on other machines (W11, W12): a server that offers a volume over TCP. The client is `volumes/remote/`.

`main` is the process: it opens volumes and runs a server for each (`listener`). A server accepts connections; both ends
prove that they know the same secret (`handshake`). A connection reads requests and writes responses (`connection`,
`wire`); `handlers` decide on which thread each request is handled, and `service` verifies it before the volume sees it.
Commits of all clients are gathered by the `committer`, made durable with one sync, and get their responses after that.
A client that lost a response repeats its request.

Guarantees, in addition to those of any volume:
- a commit happens once, however often a connection breaks, messages arrive twice, or the server is killed;
- a response to a commit means that its operations are durable on the server's disk;
- an unauthenticated connection changes nothing, and costs the server a bounded amount of memory.

docs/protocol/volume.md describes every byte.
"""
