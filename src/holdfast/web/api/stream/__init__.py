"""Captures in bulk over HTTP, each once, resumable by token (B2, B10, N5).

    stream         the request, its options and formats, the response
    shared_scans   clients of one worker share scans of the same snapshot; limits on streams

Guarantees: a client that keeps the last token it read gets every capture of its snapshot exactly once, however often
client or server fail. Access rules apply to every capture. A slow client holds one batch in memory.
"""
