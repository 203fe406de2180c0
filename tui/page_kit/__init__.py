"""What pages are made of: the page itself, dialogs, and acts that several pages offer."""
