"""Presets and configuration, resolved once, every value with its origin."""
