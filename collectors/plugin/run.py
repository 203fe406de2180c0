"""Claude Code's way in, run by its path: `python -I -S …/run.py hook|statusline STORE …`.

Python compiles a script again at every start, so everything else is in modules. With `-S` it starts
without its site, in two thirds of the time, and finds only the standard library: enough to record,
and for most answers. The site is added when something first imports one of its packages.
"""

import sys

_BELOW_ROOT = 4  # ctxtop/collectors/plugin/run.py
_PACKAGE = "/ctxtop/collectors/"


class SiteOnDemand:
    """The last finder that Python asks: adds the site, once, and looks there."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN206
        sys.meta_path.remove(cls)
        import site

        site.main()
        from _frozen_importlib_external import PathFinder

        return PathFinder.find_spec(name, path, target)


if __name__ == "__main__":
    if _PACKAGE in __file__:
        # At the end: nothing beside ctxtop may hide the standard library.
        sys.path.append(__file__.rsplit("/", _BELOW_ROOT)[0])
        if sys.flags.no_site:
            sys.meta_path.append(SiteOnDemand)
    else:
        # Installed to be edited: only the site knows where the package is.
        import site

        site.main()
    _, kind, *words = sys.argv
    if kind == "statusline":
        from ctxtop.collectors.plugin.statusline import main

        main(words)
    else:
        from ctxtop.collectors.plugin import hook

        if hook.main(words):
            from ctxtop.collectors.plugin.hook_answer import stand_by

            stand_by(words[0])
