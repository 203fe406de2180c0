"""What the facts mean: pure functions over plain values, and the store that keeps them."""
