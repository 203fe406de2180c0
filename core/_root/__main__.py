"""`python -m ctxtop` is the same as the command."""

from ctxtop.tui.cli import main

main()
