"""What a conversation holds that must not be lost, and what a summary made of it."""
