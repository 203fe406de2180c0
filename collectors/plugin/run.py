"""Claude Code's way in, run by its path: `python -I [-S] …/run.py hook|statusline STORE …`.

Python compiles what it is given by path anew every time: all else stands in modules. With
`-S` it starts without its site, in two thirds of the time, and knows the standard library
alone: enough for what only records.
"""

import sys

_BELOW_ROOT = 4  # ctxtop/collectors/plugin/run.py

if __name__ == "__main__":
    # At the end: nothing of what stands beside ctxtop may hide the standard library.
    sys.path.append(__file__.rsplit("/", _BELOW_ROOT)[0])
    _, kind, *words = sys.argv
    if kind == "statusline":
        from ctxtop.collectors.plugin.statusline import main
    else:
        from ctxtop.collectors.plugin.hook import main
    main(words)
