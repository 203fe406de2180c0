"""The page of ctxtop's own log."""
