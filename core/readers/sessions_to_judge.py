"""Finds the sessions whose agents are judged: most have none, and then nothing else is loaded."""

from sqlite3 import Connection

from ..model.config_records import DefinitionKind
from ..model.result_formats import FORMAT_OF_SKILL, format_of_skills
from ..policy.resolve import Policies
from ..store.queries import config_queries
from ..store.queries.query_rows import in_condition


def sessions_to_check(db: Connection, policies: Policies) -> frozenset[str]:
    """Return the sessions with an agent that may be expected to compress its result."""
    types = {
        each.name
        for each in config_queries.definitions(db)
        if each.kind is DefinitionKind.AGENT and format_of_skills(each.skills)
    }
    for policy in policies.all:
        types.update(policy.strings_by_name("compliance.rules"))  # a person's, or a preset's
    of_type, names = in_condition("agent_type", types)
    skills = [name for skill in FORMAT_OF_SKILL for name in (skill, skill)]
    given = " OR ".join(["t.name = ? OR t.name LIKE '%:' || ?"] * len(FORMAT_OF_SKILL))
    sql = f"""SELECT session_id FROM agent_meta WHERE {of_type}
        UNION SELECT f.session_id FROM launch JOIN file f USING (file_id)
            WHERE {of_type} OR skill IS NOT NULL
        UNION SELECT f.session_id FROM given_skill t JOIN file f USING (file_id) WHERE {given}"""
    return frozenset(row[0] for row in db.execute(sql, [*names, *names, *skills]))
