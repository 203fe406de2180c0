"""Opening, locking, editing and replacing files that other programs use."""
