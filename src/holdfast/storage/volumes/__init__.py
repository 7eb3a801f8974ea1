"""One place that holds blocks: the organizations, local, in an object store, or on another machine."""
