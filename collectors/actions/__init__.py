"""What ctxtop does by itself after a scan, and what it asks of a session."""
