"""Processes and addresses of this machine."""
