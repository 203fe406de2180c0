"""The pages of receipts: what was changed, and undo."""
