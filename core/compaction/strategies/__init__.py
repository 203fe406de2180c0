"""Ways to make a session smaller, one a module, by harm."""
