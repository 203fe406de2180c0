"""What is kept of what was said: which messages matter most, and which are never dropped."""
