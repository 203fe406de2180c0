"""The pages of one session: timeline, breakdown, compactions, sources."""
