"""What runs inside Claude Code: the standard library only, and as little of it as possible."""
