"""Recovery as seed 002 asks for it, requirement by requirement."""
