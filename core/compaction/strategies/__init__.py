"""The strategies, one a module, each with NAME, LEVEL and `find`."""
