"""The conversation as several pages show it."""
