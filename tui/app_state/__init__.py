"""What pages use of the running app: the feed of the store, actions, notices."""
