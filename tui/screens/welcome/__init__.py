"""The page that a new user sees first."""
