"""The policy: presets and settings, resolved once, every value with its origin."""
