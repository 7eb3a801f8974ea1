"""From a stream of bytes to records: what a file is, how it is compressed, where records begin."""
