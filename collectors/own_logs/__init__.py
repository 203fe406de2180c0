"""What ctxtop's own hooks and status line wrote: each record once."""
