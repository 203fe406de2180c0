"""Reads one commit of the store and measures it: what screens, commands and exports show."""
