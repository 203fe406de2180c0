"""Asking the client itself to compact a session: by the plugin, by tmux, by a run of its own."""
