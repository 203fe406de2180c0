"""Whether agents compress what they return: formats, the verdict on a text and on a run, the score.

The hook's process gives the verdict too: import only small modules of the standard library here,
and nothing of ctxtop's outside this package.
"""
