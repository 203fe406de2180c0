"""Putting our hooks into the settings of a person or a project, and taking them out again."""
