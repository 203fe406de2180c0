"""What was written, as facts, without an opinion: one module a source."""
