"""The agents' page."""
