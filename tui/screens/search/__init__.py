"""The search page: prompts and answers of all sessions."""
