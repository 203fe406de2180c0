"""What hooks and the status line write, and what ctxtop leaves for them."""
