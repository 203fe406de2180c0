"""Which earlier results an agent that starts is given, and why each was chosen."""
