"""One module a widget; widgets render and nothing else."""
