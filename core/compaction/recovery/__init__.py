"""Recovery of a session that ended because its prompt was too long or a message was empty."""
