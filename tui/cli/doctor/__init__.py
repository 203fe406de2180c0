"""What `ctxtop doctor` checks."""
