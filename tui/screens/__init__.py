"""A folder for each page: its screen, its panes and its text."""
