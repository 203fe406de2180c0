"""Works with clients: in their terminals, through the module inside them, or by starting one."""
