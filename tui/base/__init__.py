"""What every page, widget and command stands on: keys, messages, themes, threads, errors."""
