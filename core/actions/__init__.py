"""What screens, commands and automation do to a session: plan, apply, recover."""
