"""The terminals in which sessions are open: go there, answer a prompt, or open one again."""
