"""The store: everything that knows SQL."""
