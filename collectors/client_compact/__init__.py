"""Have Claude Code itself compact a session: via the plugin, via tmux, or in a separate run."""
