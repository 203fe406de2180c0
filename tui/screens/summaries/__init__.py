"""The pages of summaries and their comparison."""
