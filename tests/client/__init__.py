"""The real client against a scripted API, where nothing can leave the machine."""
