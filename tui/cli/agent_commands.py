"""`ctxtop close-agent`: close an agent that fell silent."""

import click

from ...collectors.store_update import close_silent_agent
from ...core.model.agent import AgentStatus
from .command_errors import LIVE, RefusedError, print_error
from .command_options import options_of, store_command
from .command_store import open_snapshot
from .json_records import record_of
from .printing import print_result


@store_command("close-agent")
@click.argument("session")
@click.argument("agent")
def close_agent(context: click.Context, *, session: str, agent: str) -> int:
    """Close an agent that fell silent.

    Only a zombie: its session is open, and it has written nothing for 30 minutes. Nothing is sent
    to Claude Code. If it writes again, it is running again. SESSION and AGENT are ids or their
    starts.
    """
    with open_snapshot(options_of(context)) as snapshot:
        session_id = snapshot.session_id(session)
        agent_id = snapshot.agent_id(session_id, agent)
        (found,) = (each for each in snapshot.agents(session_id) if each.agent_id == agent_id)
        places, now_ms = snapshot.places, snapshot.now_ms
    if found.status is AgentStatus.RUNNING:
        print_error(f"{found.agent_id} is running: only an agent silent for 30 minutes is closed")
        return LIVE
    if found.status is not AgentStatus.ZOMBIE:
        raise RefusedError(f"{found.agent_id} is {found.status_label}: there is nothing to close")
    close_silent_agent(places, found, now_ms)
    record = {**record_of(found, "session_id agent_id"), "status": AgentStatus.CLOSED.value}
    return print_result(context, record, lambda: [f"closed {found.agent_type} {found.agent_id}"])
