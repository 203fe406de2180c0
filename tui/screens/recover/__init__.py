"""The page that recovers a session whose prompt is too long."""
