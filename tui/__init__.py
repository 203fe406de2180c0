"""What a person sees: the dashboard and the command line."""
