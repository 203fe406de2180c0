"""The first page: every session, and its panes."""
