"""Plans, applies, verifies and undoes the compaction of a transcript."""
