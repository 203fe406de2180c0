"""Data that ships with the package: tiktoken's table."""
