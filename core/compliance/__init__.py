"""Whether agents compress what they return: the formats, the verdict, and the score.

The verdict is also given in the hook's process: of the standard library only small modules are
imported here, and none of ctxtop's outside this package.
"""
