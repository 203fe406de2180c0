"""Models that may write a summary, where a person named one: none is asked by default."""
