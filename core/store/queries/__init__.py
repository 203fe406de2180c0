"""What the screen and the commands ask of the store, by subject."""
