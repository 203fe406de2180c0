"""A transcript's lines: what each is, and the facts that it holds."""
