"""What runs inside Claude Code: standard library alone, and as little of that as will do."""
