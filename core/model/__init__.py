"""The vocabulary as types: sessions, agents, contexts, problems."""
