"""The strategies by level; `strategy_registry` lists them all."""
