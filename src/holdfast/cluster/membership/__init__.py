"""Who belongs to the cluster, who holds a partition, and who may fetch for it.

`placement` says which nodes hold a partition: by membership alone. `duty` says which of them owns it, that is, may
fetch its URLs: by leases and claims in a store that swaps one value for another atomically. A node that dies, stalls
or is cut off loses its right to fetch before another node can get it.
"""
