"""What is in flight, how long caches live, and sums by model that are kept as answers come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database

_BAND: Final = "({0}context_tokens > 100000) + ({0}context_tokens > 200000)"
"""0 to 100,000 tokens of prompt, to 200,000, above: some models' prices step there."""

_COUNTS: Final = (
    "{0}input_tokens, {0}cache_creation_tokens, COALESCE({0}cache_1h_tokens, 0),"
    " {0}cache_read_tokens, {0}output_tokens"
)

_ADD: Final = f"""
    INSERT INTO spending VALUES (NEW.file_id, NEW.model, {_BAND.format("NEW.")},
        {_COUNTS.format("NEW.")}, 1)
    ON CONFLICT DO UPDATE SET
        input_tokens = input_tokens + excluded.input_tokens,
        cache_creation_tokens = cache_creation_tokens + excluded.cache_creation_tokens,
        cache_1h_tokens = cache_1h_tokens + excluded.cache_1h_tokens,
        cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
        output_tokens = output_tokens + excluded.output_tokens,
        responses = responses + 1;
"""

_TAKE: Final = f"""
    UPDATE spending SET
        input_tokens = input_tokens - OLD.input_tokens,
        cache_creation_tokens = cache_creation_tokens - OLD.cache_creation_tokens,
        cache_1h_tokens = cache_1h_tokens - OLD.cache_1h_tokens,
        cache_read_tokens = cache_read_tokens - OLD.cache_read_tokens,
        output_tokens = output_tokens - OLD.output_tokens,
        responses = responses - 1
    WHERE file_id = OLD.file_id AND model = OLD.model AND band = {_BAND.format("OLD.")};
    DELETE FROM spending WHERE file_id = OLD.file_id AND model = OLD.model
        AND band = {_BAND.format("OLD.")} AND responses <= 0;
"""


@migrations()
def m018_activity_and_cost(db: Database) -> None:
    """Carry it out."""
    db.executescript(
        f"""
        CREATE TABLE open_call (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            tool_use_id TEXT NOT NULL,
            at INTEGER,
            name TEXT NOT NULL,
            detail TEXT NOT NULL,
            PRIMARY KEY (file_id, tool_use_id)
        ) STRICT, WITHOUT ROWID;

        ALTER TABLE session ADD COLUMN turn TEXT;
        ALTER TABLE session ADD COLUMN turn_at INTEGER;
        ALTER TABLE session ADD COLUMN turn_offset INTEGER;
        ALTER TABLE session ADD COLUMN cost_usd REAL;
        ALTER TABLE session ADD COLUMN cost_offset INTEGER;
        ALTER TABLE response ADD COLUMN cache_1h_tokens INTEGER NOT NULL DEFAULT 0;

        -- What can be read again is: of older rows nobody knows how long their caches lived.
        DELETE FROM file WHERE gone = 0;

        CREATE TABLE spending (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            model TEXT NOT NULL,
            band INTEGER NOT NULL,
            input_tokens INTEGER NOT NULL,
            cache_creation_tokens INTEGER NOT NULL,
            cache_1h_tokens INTEGER NOT NULL,
            cache_read_tokens INTEGER NOT NULL,
            output_tokens INTEGER NOT NULL,
            responses INTEGER NOT NULL,
            PRIMARY KEY (file_id, model, band)
        ) STRICT, WITHOUT ROWID;

        -- Answers that more than one file holds: a fork copies its history.
        CREATE TABLE shared_response (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            message_id TEXT NOT NULL,
            PRIMARY KEY (file_id, message_id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX shared_response_message ON shared_response (message_id);

        INSERT INTO spending SELECT file_id, model, {_BAND.format("")},
            SUM(input_tokens), SUM(cache_creation_tokens), SUM(cache_1h_tokens),
            SUM(cache_read_tokens), SUM(output_tokens), COUNT(*)
        FROM response GROUP BY 1, 2, 3;
        INSERT INTO shared_response SELECT file_id, message_id FROM response
        WHERE message_id IN (
            SELECT message_id FROM response GROUP BY message_id HAVING COUNT(*) > 1);

        CREATE TRIGGER response_spent AFTER INSERT ON response BEGIN {_ADD} END;
        CREATE TRIGGER response_spent_anew AFTER UPDATE ON response BEGIN {_TAKE} {_ADD} END;
        CREATE TRIGGER response_unspent AFTER DELETE ON response BEGIN {_TAKE}
            DELETE FROM shared_response WHERE message_id = OLD.message_id
            AND (file_id = OLD.file_id OR 2 > (
                SELECT COUNT(*) FROM response r WHERE r.message_id = OLD.message_id));
        END;
        CREATE TRIGGER response_shared AFTER INSERT ON response
        WHEN EXISTS (SELECT 1 FROM response o
            WHERE o.message_id = NEW.message_id AND o.file_id <> NEW.file_id)
        BEGIN
            INSERT OR IGNORE INTO shared_response
            SELECT file_id, message_id FROM response WHERE message_id = NEW.message_id;
        END;
        """
    )
