"""What the facts mean, and the store that keeps them."""
