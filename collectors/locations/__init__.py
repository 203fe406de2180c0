"""Where Claude Code's and ctxtop's files are, and which policy files hold there."""
