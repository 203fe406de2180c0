"""Extract what matters from a conversation, and write summaries of it within a token budget."""
