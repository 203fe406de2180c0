"""The command line: what other programs may rely on."""
