"""The page that plans a compaction and applies it."""
