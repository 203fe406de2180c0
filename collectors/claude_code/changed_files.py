"""What reads files that changed: imported with the first of them.

A command on a folder that did not change only looks at sizes and times. Loading the decoders, and
all that they need, would take a quarter of its time. So no module that looks imports one that
reads, except this, where there is something to read.
"""

from ...core.transcript import line_decoder
from . import agent_metas, own_log_records, reader_pool

__all__ = ["agent_metas", "line_decoder", "own_log_records", "reader_pool"]
