"""The page that checks the installation."""
