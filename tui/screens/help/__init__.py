"""The page that lists the keys."""
