"""When and how a conversation is made shorter."""
