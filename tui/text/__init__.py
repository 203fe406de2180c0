"""What several pages and commands share of words and rows."""
