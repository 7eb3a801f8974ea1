"""What a cluster costs: copies, movement, repair, comparison, a change of owner, and the NATS service's memory.

nodes in this process, over real TLS ──► CPU of both ends, bytes on the wire
node processes and their NATS servers ──► kill -9, and the time to the next owner's claim
one NATS server, a million messages ──► its resident memory
"""
