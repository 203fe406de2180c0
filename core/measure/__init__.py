"""What the stored records mean: windows, triggers, tokens, forecasts, warnings."""
