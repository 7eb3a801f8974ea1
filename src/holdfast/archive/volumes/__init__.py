"""The volumes of an archive: listed, added, maintained, taken over, reported on."""
