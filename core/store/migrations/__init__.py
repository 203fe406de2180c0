"""The store's tables, as migrations that are only ever added to: a module each, in order."""

from . import (
    m001_files_and_facts,
    m002_sidecars,
    m003_answers,
    m004_agent_eras,
    m005_requests,
    m006_hook_log,
    m007_surroundings,
    m008_additions,
    m009_warnings,
    m010_token_counts,
    m011_compaction_told,
    m012_compliance,
    m013_measurements,
    m014_saves,
    m015_answers_given,
    m016_recovery,
    m017_automatic,
)
from .known import migrations

__all__ = [
    "m001_files_and_facts",
    "m002_sidecars",
    "m003_answers",
    "m004_agent_eras",
    "m005_requests",
    "m006_hook_log",
    "m007_surroundings",
    "m008_additions",
    "m009_warnings",
    "m010_token_counts",
    "m011_compaction_told",
    "m012_compliance",
    "m013_measurements",
    "m014_saves",
    "m015_answers_given",
    "m016_recovery",
    "m017_automatic",
    "migrations",
]
