"""What requests read from the prompt cache and wrote to it, and why it was missed."""
