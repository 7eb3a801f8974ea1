"""Memento (RFC 7089): TimeGates, TimeMaps and links between captures."""
