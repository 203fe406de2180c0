"""A conversation as it can be made smaller: what the model sees of it, and what could leave."""
