-- ctxtop's store: what Claude Code wrote, with the file and byte offset that each row came from.
--
-- Unless a column says otherwise: times (`at`, `..._at`) are ms since 1970 (UTC), `..._ns` are
-- nanoseconds, offsets, lengths and sizes are bytes, `..._tokens` are tokens, flags are 0 or 1, and
-- NULL means that the source did not say. A `key` is 64 bits of a hash. A table stands below those
-- that it refers to, an index below its table.
--
-- Whoever changes anything here raises SCHEMA_VERSION: an older store is moved aside and rebuilt.

-- -------------------------------------------------------------------------------------------------
-- The store itself

-- Facts about the store. `root`: the Claude Code folder that it holds; `registry`: 1 where that
-- folder has a registry of sessions; `schema`: the hash of this schema; `search_rules` and
-- `search_seconds`: by which rules the search was indexed, and how long that took.
CREATE TABLE about (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- What could not be read or stored: one row for each place, the newest.
CREATE TABLE trouble (
    place TEXT PRIMARY KEY, -- A path, or the name of a part of ctxtop.
    at INTEGER NOT NULL,
    what TEXT NOT NULL,
    remedy TEXT NOT NULL, -- What the user can do.
    traceback TEXT NOT NULL -- Of a fault of ctxtop's own; else empty.
) STRICT;

-- -------------------------------------------------------------------------------------------------
-- Transcript files: one row for each file, and how far it was read

CREATE TABLE file (
    file_id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE, -- Below Claude Code's folder.
    kind TEXT NOT NULL, -- session, agent, or journal (what the agents of a workflow returned).
    project TEXT NOT NULL, -- The name of the project's folder.
    session_id TEXT NOT NULL,
    agent_id TEXT,
    device INTEGER NOT NULL DEFAULT 0,
    inode INTEGER NOT NULL DEFAULT 0, -- Signed: an unsigned 64-bit inode is stored as its negative.
    -- Everything before it is stored. It moves in the transaction that stores the rows.
    offset INTEGER NOT NULL DEFAULT 0,
    -- Hash of the bytes before `offset`, by which a rewritten file is noticed.
    anchor TEXT NOT NULL DEFAULT '',
    size INTEGER NOT NULL DEFAULT 0,
    mtime_ns INTEGER NOT NULL DEFAULT 0,
    lines INTEGER NOT NULL DEFAULT 0,
    gone INTEGER NOT NULL DEFAULT 0, -- 1 where the file no longer exists; its rows are kept.
    ctime_ns INTEGER NOT NULL DEFAULT 0, -- 0 where not noted.
    -- Hash of samples before `offset`, by which an edit in place is noticed; empty where not noted.
    places TEXT NOT NULL DEFAULT '',
    -- All lines that could not be read; `bad_line` holds the first of them.
    bad_lines INTEGER NOT NULL DEFAULT 0,
    search_offset INTEGER NOT NULL DEFAULT 0, -- Everything before it is indexed for the search.
    -- all or summaries: the file no longer exists, and ctxtop's archive has so much of it; else
    -- empty.
    archived TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX file_session ON file (session_id, kind);

-- Lines that become no rows, by their type. known: 1 where the type is known and not needed, 0
-- where this version does not know it.
CREATE TABLE line_count (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    type TEXT NOT NULL,
    known INTEGER NOT NULL,
    lines INTEGER NOT NULL,
    PRIMARY KEY (file_id, type)
) STRICT;

-- Lines that could not be read: the first 100 of a file and 10,000 of all files.
CREATE TABLE bad_line (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    length INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (file_id, offset)
) STRICT;

-- -------------------------------------------------------------------------------------------------
-- Sessions and their conversations: rows belong to a file, and are deleted when it is read again

-- What the lines of a file say about its conversation as a whole; an agent's file has a row too.
CREATE TABLE session (
    file_id INTEGER PRIMARY KEY REFERENCES file ON DELETE CASCADE,
    started_at INTEGER,
    last_at INTEGER,
    -- Time of the first line that has one: for a fork when it forked, not the history that it
    -- copied.
    opened_at INTEGER,
    forked_from TEXT,
    cwd TEXT, -- Where the newest line was written.
    client_version TEXT,
    custom_title TEXT,
    ai_title TEXT,
    summary_title TEXT,
    first_prompt TEXT,
    last_prompt TEXT,
    prompt_title TEXT, -- What the first prompt that says something is about.
    message_title TEXT, -- The same of the first message that no person typed as a prompt.
    prompt_at INTEGER, -- When the last prompt was sent: old ones may be written again behind it.
    noted_prompt TEXT, -- What the client noted as the last prompt, in a line without a time.
    git_branch TEXT, -- At the last prompt.
    model TEXT, -- The model that was asked for, before the first answer too.
    model_offset INTEGER, -- Of the line that named the model.
    turn TEXT, -- Whose turn it is by the newest message (TurnState).
    turn_at INTEGER,
    turn_offset INTEGER,
    cost_usd REAL, -- The client's own total, with agents and with requests that no line records.
    cost_offset INTEGER,
    began_in TEXT, -- Where the file's first line was written, if the session begins with it.
    -- The folder that the client named the project's folder after, if a line was written there.
    launched_in TEXT,
    prompt INTEGER, -- Key of what an agent was asked, in its own file.
    -- Of the newest line of the conversation: a summary names the conversation by it
    -- (`leaf_title`).
    leaf_uuid TEXT,
    worktree TEXT, -- The git worktree that the session entered.
    worktree_owner TEXT, -- Where it was before.
    moved_to TEXT -- The folder, or worktree, that the client moved the session to.
) STRICT;

-- Answers of the API. Several lines with one message id are one answer: its place is that of the
-- first line, its numbers are those of the last.
CREATE TABLE response (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    message_id TEXT NOT NULL,
    offset INTEGER NOT NULL,
    last_offset INTEGER NOT NULL, -- Of the last line that belongs to it.
    at INTEGER,
    model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    cache_creation_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    context_tokens INTEGER NOT NULL, -- Input of the last iteration: what the model saw.
    -- 1 for a line of an agent inside the session's own file (clients up to 2.0).
    sidechain INTEGER NOT NULL,
    -- Its tool calls, each once: the end of the call's id, and a comma after it.
    tools TEXT NOT NULL,
    request INTEGER, -- Key of the `api-request` that it answers.
    tool_uses INTEGER GENERATED ALWAYS AS
        (LENGTH(tools) - LENGTH(REPLACE(tools, ',', ''))),
    last_output_tokens INTEGER, -- Output of the last iteration, where there were several.
    -- Of cache_creation_tokens: those that are cached for an hour, not for five minutes.
    cache_1h_tokens INTEGER NOT NULL DEFAULT 0,
    -- 1 where context_tokens is the estimate that an edit of ctxtop wrote in place of the API's
    -- number.
    lowered INTEGER NOT NULL DEFAULT 0,
    has_text INTEGER NOT NULL DEFAULT 0, -- 1 where a line of it holds a text.
    client_version TEXT, -- Of the client that wrote its first line.
    -- Why the prompt cache was missed, in the API's own word, and how many tokens it says so of.
    cache_miss TEXT,
    cache_missed_tokens INTEGER,
    rate INTEGER NOT NULL DEFAULT 0, -- What changes its price, besides its model (PriceRate).
    web_searches INTEGER NOT NULL DEFAULT 0, -- That the API made for it.
    -- Where its tokens have several prices, or another model was asked for it, what it costs: JSON,
    -- a list of lists with the columns of `spending` from `model` on. Else the columns above say it.
    charges TEXT,
    -- What was cleared from its request, and counts toward the next compaction all the same.
    also_counted_tokens INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (file_id, offset)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX response_message ON response (message_id, file_id);

-- The largest context in tokens that each model saw in a file.
CREATE TABLE model_use (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    model TEXT NOT NULL,
    sidechain INTEGER NOT NULL,
    peak_tokens INTEGER NOT NULL,
    PRIMARY KEY (file_id, model, sidechain)
) STRICT, WITHOUT ROWID;

-- Sums of `charge` by file, model and rate, kept by what inserts a run of answers.
CREATE TABLE spending (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    model TEXT NOT NULL,
    rate INTEGER NOT NULL, -- A PriceRate, by which prices differ.
    input_tokens INTEGER NOT NULL,
    cache_creation_tokens INTEGER NOT NULL,
    cache_1h_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    web_searches INTEGER NOT NULL,
    responses INTEGER NOT NULL,
    PRIMARY KEY (file_id, model, rate)
) STRICT, WITHOUT ROWID;

-- Answers that more than one file holds: a fork copies its history. Kept by what inserts a run of
-- answers, and by the trigger below.
CREATE TABLE shared_response (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    message_id TEXT NOT NULL,
    PRIMARY KEY (file_id, message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX shared_response_message ON shared_response (message_id);

-- What each answer costs, a row for each price: nearly all answers have one.
CREATE VIEW charge AS
SELECT file_id, message_id, offset, model, rate, input_tokens, cache_creation_tokens,
    cache_1h_tokens, cache_read_tokens, output_tokens, web_searches, 1 AS responses
FROM response WHERE charges IS NULL
UNION ALL
SELECT file_id, message_id, offset, json_extract(value, '$[0]'), json_extract(value, '$[1]'),
    json_extract(value, '$[2]'), json_extract(value, '$[3]'), json_extract(value, '$[4]'),
    json_extract(value, '$[5]'), json_extract(value, '$[6]'), json_extract(value, '$[7]'),
    json_extract(value, '$[8]')
FROM response, json_each(charges) WHERE charges IS NOT NULL;

CREATE TRIGGER response_unshared AFTER DELETE ON response BEGIN
    DELETE FROM shared_response WHERE message_id = OLD.message_id
        AND (file_id = OLD.file_id OR 2 > (
            SELECT COUNT(*) FROM response r WHERE r.message_id = OLD.message_id));
END;

-- Lines since the last answer began: its own lines, and what the next request adds.
CREATE TABLE addition (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    -- Key of the answer's id in the answer's own lines, whose tokens the API reports.
    message INTEGER,
    tokens INTEGER NOT NULL, -- By the client's own estimate.
    PRIMARY KEY (file_id, offset)
) STRICT, WITHOUT ROWID;

-- Compactions: a transcript's `compact_boundary` lines.
CREATE TABLE boundary (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    uuid TEXT NOT NULL,
    offset INTEGER NOT NULL,
    at INTEGER,
    trigger TEXT,
    pre_tokens INTEGER,
    post_tokens INTEGER,
    dropped_tokens INTEGER,
    duration_ms INTEGER,
    kept_messages INTEGER,
    is_precomputed INTEGER NOT NULL, -- Its summary was made in the background at the trigger.
    PRIMARY KEY (file_id, uuid)
) STRICT;
CREATE INDEX boundary_place ON boundary (file_id, offset);
CREATE INDEX boundary_line ON boundary (uuid);

-- Microcompactions: the client stopped sending some tool results and attachments.
CREATE TABLE clearing (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    at INTEGER,
    saved_tokens INTEGER,
    results INTEGER NOT NULL, -- How many tool results were cleared.
    attachments INTEGER NOT NULL, -- How many attachments were cleared.
    PRIMARY KEY (file_id, offset)
) STRICT, WITHOUT ROWID;

-- What the next request will hold after a compaction that no answer follows yet.
CREATE TABLE compaction_left (
    file_id INTEGER PRIMARY KEY REFERENCES file ON DELETE CASCADE,
    offset INTEGER NOT NULL, -- Of the boundary.
    read_to INTEGER NOT NULL, -- How far the file was read for the estimate.
    tokens INTEGER -- NULL where no estimate is possible.
) STRICT;

-- The size of a context's text, of files whose policy counts it (`usage.source`).
CREATE TABLE context_text (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    rule TEXT NOT NULL, -- How it was counted (CountingRule.text_rule).
    offset INTEGER NOT NULL, -- Of an answer, whose lines are counted too, or of a boundary.
    tokens INTEGER NOT NULL,
    PRIMARY KEY (file_id, rule, offset)
) STRICT, WITHOUT ROWID;

-- How far the text of a file was counted by a rule.
CREATE TABLE context_text_progress (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    rule TEXT NOT NULL,
    read_to INTEGER NOT NULL, -- How far the file was read.
    offset INTEGER NOT NULL, -- Where to count on: the last answer, which may still grow.
    tokens_before INTEGER NOT NULL, -- What the model sees before that answer.
    PRIMARY KEY (file_id, rule)
) STRICT, WITHOUT ROWID;

-- The report on a compaction: what was forgotten, how soon it came, what was cleared before it.
CREATE TABLE compaction_told (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    version INTEGER NOT NULL, -- Twice the version of the rules, and 1 more once an answer follows.
    told TEXT NOT NULL, -- JSON (CompactionReport).
    PRIMARY KEY (file_id, offset)
) STRICT;

-- What `/context` said; tokens, rounded where an older client wrote its text alone.
CREATE TABLE context_report (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    model TEXT NOT NULL, -- As it was asked for, with its suffix for a large window.
    total_tokens INTEGER NOT NULL,
    window_tokens INTEGER NOT NULL, -- Where the client ends the window for its compaction.
    buffer_tokens INTEGER, -- Kept free below that; NULL where it compacts only when it must.
    PRIMARY KEY (file_id, offset)
) STRICT, WITHOUT ROWID;

-- Requests that the API refused.
CREATE TABLE api_error (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    at INTEGER,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL,
    prompt_tokens INTEGER, -- Size of a prompt that was too long.
    limit_tokens INTEGER,
    uuid TEXT,
    PRIMARY KEY (file_id, offset)
) STRICT;
CREATE UNIQUE INDEX api_error_line ON api_error (file_id, uuid);

-- Texts worth keeping: agents' results, summaries of compactions, plans, and the rules of a person.
CREATE TABLE summary (
    summary_id INTEGER PRIMARY KEY,
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    uuid TEXT NOT NULL, -- Of its line; of a rule its id.
    offset INTEGER NOT NULL,
    kind TEXT NOT NULL,
    agent_id TEXT,
    at INTEGER,
    text TEXT NOT NULL,
    lines INTEGER NOT NULL,
    chars INTEGER NOT NULL, -- Of the whole text; `text` may be cut.
    source TEXT, -- Path of the memory file that states a rule; NULL if a prompt does.
    UNIQUE (file_id, uuid)
) STRICT;
CREATE INDEX summary_agent ON summary (agent_id);
CREATE INDEX summary_line ON summary (uuid);
CREATE INDEX summary_time ON summary (at);

-- Estimated tokens of a summary, counted after it was stored.
CREATE TABLE estimate (
    summary_id INTEGER PRIMARY KEY REFERENCES summary ON DELETE CASCADE,
    tokens INTEGER NOT NULL
) STRICT;

-- The full-text index of the summaries holds no text of its own; triggers keep it in step.
CREATE VIRTUAL TABLE summary_fts USING fts5 (text, content = "summary");
CREATE TRIGGER summary_ai AFTER INSERT ON summary BEGIN
    INSERT INTO summary_fts (rowid, text) VALUES (new.rowid, new.text);
END;
CREATE TRIGGER summary_ad AFTER DELETE ON summary BEGIN
    INSERT INTO summary_fts (summary_fts, rowid, text) VALUES ('delete', old.rowid, old.text);
END;
CREATE TRIGGER summary_au AFTER UPDATE ON summary BEGIN
    INSERT INTO summary_fts (summary_fts, rowid, text) VALUES ('delete', old.rowid, old.text);
    INSERT INTO summary_fts (rowid, text) VALUES (new.rowid, new.text);
END;

-- Prompts and answers that the search finds, some in a row of one file in each block; their texts
-- are read from the transcript. An id is never used again: the index below cannot delete the words
-- of a block that is gone.
CREATE TABLE searched_block (
    block_id INTEGER PRIMARY KEY AUTOINCREMENT,
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    at INTEGER NOT NULL, -- The latest of its turns; 0 if unknown.
    chars INTEGER NOT NULL, -- Of its texts.
    turns BLOB NOT NULL -- Where they are and who wrote them (TurnPlace).
) STRICT;

-- The beginnings of the blocks' words, folded and each once a block: no texts and no positions,
-- which would take four times the room. They hold no blanks, so that the tokenizer changes none.
CREATE VIRTUAL TABLE search_fts USING fts5 (
    words, content = "", columnsize = 0, detail = none, tokenize = "ascii"
);
-- Rows of this many bytes fill SQLite's pages; smaller ones leave a part of each page empty.
INSERT INTO search_fts (search_fts, rank) VALUES ('pgsz', 65000);

-- The last answer's text in an agent's own file: its result.
CREATE TABLE reply (
    file_id INTEGER PRIMARY KEY REFERENCES file ON DELETE CASCADE,
    message_id TEXT NOT NULL,
    offset INTEGER NOT NULL,
    at INTEGER,
    text TEXT NOT NULL
) STRICT;

-- Tool calls that have no result yet.
CREATE TABLE open_call (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    tool_use_id TEXT NOT NULL,
    at INTEGER,
    name TEXT NOT NULL,
    detail TEXT NOT NULL, -- What tells it from other calls of its tool: a command, a file.
    PRIMARY KEY (file_id, tool_use_id)
) STRICT, WITHOUT ROWID;

-- What a `summary` line calls the conversation that ends in a line, in whichever file that is.
CREATE TABLE leaf_title (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    leaf_uuid TEXT NOT NULL,
    title TEXT NOT NULL,
    PRIMARY KEY (file_id, leaf_uuid)
) STRICT, WITHOUT ROWID;
CREATE INDEX leaf_title_leaf ON leaf_title (leaf_uuid);

-- -------------------------------------------------------------------------------------------------
-- Agents

-- What an agent's meta.json says.
CREATE TABLE agent_meta (
    path TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    agent_type TEXT NOT NULL,
    description TEXT NOT NULL,
    tool_use_id TEXT,
    parent_agent_id TEXT,
    depth INTEGER NOT NULL, -- 1 for an agent that the session itself started.
    model TEXT,
    finished INTEGER,
    mtime_ns INTEGER NOT NULL,
    name TEXT, -- Of a teammate.
    stopped INTEGER NOT NULL DEFAULT 0 -- 1 where a person stopped it, alone or with the turn.
) STRICT;
CREATE INDEX agent_meta_session ON agent_meta (session_id, agent_id);

-- Tool calls that start an agent.
CREATE TABLE launch (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    tool_use_id TEXT NOT NULL,
    offset INTEGER NOT NULL,
    at INTEGER,
    agent_type TEXT NOT NULL,
    description TEXT NOT NULL,
    asked_model TEXT, -- As the client names it.
    prompt INTEGER, -- Key of the prompt: an agent of clients up to 2.0 begins with the same text.
    skill TEXT, -- Whose format the prompt asks for.
    PRIMARY KEY (file_id, tool_use_id)
) STRICT;
CREATE INDEX launch_call ON launch (tool_use_id);

-- What came back from an agent into its parent.
CREATE TABLE agent_return (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    uuid TEXT NOT NULL,
    offset INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    tool_use_id TEXT,
    at INTEGER,
    status TEXT NOT NULL,
    model TEXT,
    context_tokens INTEGER, -- Input of the agent's last request, where the return says it.
    total_tokens INTEGER, -- The same with its output, which is all that a notification says.
    tool_uses INTEGER,
    -- The four counts are what the agent's last request spent, where the return says it.
    input_tokens INTEGER,
    cache_creation_tokens INTEGER,
    cache_read_tokens INTEGER,
    output_tokens INTEGER,
    name TEXT, -- Of a teammate: its messages to the session that leads it give no id.
    PRIMARY KEY (file_id, uuid)
) STRICT;
CREATE INDEX agent_return_agent ON agent_return (agent_id);

-- Lines of agents inside the session's own file (clients up to 2.0).
CREATE TABLE aside_line (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    line INTEGER NOT NULL, -- Key of the line's uuid.
    root INTEGER NOT NULL, -- Key of the first line of its agent.
    offset INTEGER NOT NULL,
    message_id TEXT,
    prompt INTEGER, -- Key of its text, where it can be what the agent was asked.
    PRIMARY KEY (file_id, line)
) STRICT, WITHOUT ROWID;
CREATE INDEX aside_line_root ON aside_line (file_id, offset) WHERE line = root;

-- Agents inside `progress` lines of their parent's file (clients up to 2.1.9x).
CREATE TABLE step_agent (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    agent_id TEXT NOT NULL,
    tool_use_id TEXT,
    offset INTEGER NOT NULL,
    started_at INTEGER,
    last_at INTEGER,
    PRIMARY KEY (file_id, agent_id)
) STRICT, WITHOUT ROWID;

-- Their answers; columns as in `response`.
CREATE TABLE step (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    message_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    offset INTEGER NOT NULL,
    at INTEGER,
    model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    cache_creation_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    context_tokens INTEGER NOT NULL,
    tools TEXT NOT NULL,
    last_offset INTEGER NOT NULL,
    cache_1h_tokens INTEGER NOT NULL DEFAULT 0,
    rate INTEGER NOT NULL DEFAULT 0,
    web_searches INTEGER NOT NULL DEFAULT 0,
    charges TEXT,
    PRIMARY KEY (file_id, message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX step_message ON step (message_id);
CREATE INDEX step_of_agent ON step (file_id, agent_id);

-- Lines of an agent's transcript that hold the marker of compressed results.
CREATE TABLE marker (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    line TEXT NOT NULL, -- Its uuid, or its place where it has none.
    offset INTEGER NOT NULL,
    origin TEXT NOT NULL, -- Where in the transcript it stands (MarkerOrigin).
    message_id TEXT, -- Of an assistant's line.
    text TEXT, -- Of an assistant's line: it may have been the compressed result.
    PRIMARY KEY (file_id, line)
) STRICT, WITHOUT ROWID;

-- What a hook told an agent that wanted to stop: it was blocked.
CREATE TABLE feedback (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    line TEXT NOT NULL,
    offset INTEGER NOT NULL,
    PRIMARY KEY (file_id, line)
) STRICT, WITHOUT ROWID;

-- Skills whose text an agent was given.
CREATE TABLE given_skill (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    line TEXT NOT NULL,
    offset INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (file_id, line)
) STRICT, WITHOUT ROWID;

-- -------------------------------------------------------------------------------------------------
-- Requests that were sent to the API, by the keys of their parts and not by their text

CREATE TABLE request (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    length INTEGER NOT NULL,
    request INTEGER NOT NULL, -- Key of its id.
    at INTEGER,
    model TEXT,
    query_source TEXT,
    shape INTEGER, -- Key of its system prompt and tools.
    base INTEGER, -- Key of the request whose first `keep` messages it repeats.
    keep INTEGER NOT NULL,
    tail BLOB NOT NULL, -- Keys of the messages after those, eight bytes each, big-endian.
    PRIMARY KEY (file_id, offset)
) STRICT, WITHOUT ROWID;

-- Where a part of a request stands: a message as sent, or a shape.
CREATE TABLE request_part (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    part INTEGER NOT NULL, -- Key of its hash.
    offset INTEGER NOT NULL,
    length INTEGER NOT NULL,
    PRIMARY KEY (file_id, part)
) STRICT, WITHOUT ROWID;

-- -------------------------------------------------------------------------------------------------
-- Clients that are open, and what they said about themselves

-- Entries of Claude Code's registry whose process is alive.
CREATE TABLE live (
    session_id TEXT PRIMARY KEY,
    pid INTEGER NOT NULL,
    status TEXT NOT NULL,
    tmux TEXT,
    name TEXT,
    updated_at INTEGER,
    waiting_for TEXT, -- What a person is asked, where the status is waiting.
    cwd TEXT,
    client_version TEXT,
    started_at INTEGER,
    process_start TEXT, -- As the system gives it: clock ticks on Linux, a date on macOS.
    has_shell INTEGER NOT NULL DEFAULT 0 -- 1 where it is idle and a shell runs in the background.
) STRICT;

-- Sessions whose entry in the registry was left behind by a process that ended.
CREATE TABLE left_open (
    session_id TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- When ctxtop itself last changed a session, made it, or made a fork of it.
CREATE TABLE changed_session (
    session_id TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    fork_id TEXT -- The fork's session; NULL if the session itself was changed or made.
) STRICT, WITHOUT ROWID;

-- The sessions that ctxtop made of others.
CREATE TABLE own_fork (
    session_id TEXT PRIMARY KEY,
    kind TEXT NOT NULL, -- How: the name of a strategy, or 'levels'.
    is_undone INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Context windows that a client reported, the newest for each session and model.
CREATE TABLE window_seen (
    session_id TEXT NOT NULL,
    model TEXT NOT NULL,
    window_tokens INTEGER NOT NULL,
    at INTEGER NOT NULL,
    -- 1 where the module inside the client was told, 0 where the status line was.
    measured INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session_id, model)
) STRICT;

-- What was seen of the environment of a session's client.
CREATE TABLE client_environment (
    session_id TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (session_id, name)
) STRICT, WITHOUT ROWID;

-- -------------------------------------------------------------------------------------------------
-- ctxtop's own logs: rows belong to one part of a log

-- One file of a log, which may be renamed while it is read: known by its first line.
CREATE TABLE log_part (
    part_id INTEGER PRIMARY KEY,
    log TEXT NOT NULL, -- The name of the file that is written now (LogKind).
    mark TEXT NOT NULL, -- Hash of the first line.
    name TEXT NOT NULL, -- The file's name when it was last read.
    offset INTEGER NOT NULL DEFAULT 0,
    anchor TEXT NOT NULL DEFAULT '',
    size INTEGER NOT NULL DEFAULT 0,
    mtime_ns INTEGER NOT NULL DEFAULT 0,
    -- All lines that could not be read; `log_bad_line` holds the first of them.
    bad_lines INTEGER NOT NULL DEFAULT 0,
    UNIQUE (log, mark)
) STRICT;

-- What the client told a hook.
CREATE TABLE hook_event (
    part_id INTEGER NOT NULL REFERENCES log_part ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    at INTEGER NOT NULL,
    event TEXT NOT NULL,
    known INTEGER NOT NULL, -- 1 where this version knows the event.
    session_id TEXT,
    agent_id TEXT,
    agent_type TEXT, -- Empty for an agent of the client's own, which never has a transcript.
    tool_name TEXT,
    detail TEXT NOT NULL, -- JSON: `given`, and in `cut` the sizes of what the log left out.
    PRIMARY KEY (part_id, offset)
) STRICT, WITHOUT ROWID;
CREATE INDEX hook_event_session ON hook_event (session_id, at);
CREATE INDEX hook_event_unknown ON hook_event (event) WHERE known = 0;
CREATE INDEX hook_event_end ON hook_event (session_id, at) WHERE event = 'SessionEnd';

-- What the client told its status line; the same again is one row, from `at` until `last_at`.
CREATE TABLE status_snapshot (
    part_id INTEGER NOT NULL REFERENCES log_part ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    model TEXT NOT NULL, -- As the client names it, with its suffix for a large window.
    window_tokens INTEGER,
    used_percentage REAL,
    input_tokens INTEGER, -- The four counts are NULL together: before the first answer.
    cache_creation_tokens INTEGER,
    cache_read_tokens INTEGER,
    output_tokens INTEGER,
    cost_usd REAL,
    cache_warm INTEGER,
    cache_expires_at INTEGER,
    cache_ttl_ms INTEGER, -- How long it lasts after its last use.
    cache_cold_tokens INTEGER, -- That the next prompt writes again once it has expired.
    PRIMARY KEY (part_id, offset)
) STRICT, WITHOUT ROWID;
CREATE INDEX status_snapshot_session ON status_snapshot (session_id, at);

-- What the client's status line said of the plan's limits: one row where a session's reading of a
-- window changed, from `at` until `last_at`. The client repeats what its last answer said.
CREATE TABLE limit_reading (
    part_id INTEGER NOT NULL REFERENCES log_part ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    window TEXT NOT NULL, -- As the client names it: five_hour, seven_day, or one not known here.
    at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    used_percentage REAL NOT NULL,
    resets_at INTEGER,
    PRIMARY KEY (part_id, offset, window)
) STRICT, WITHOUT ROWID;
CREATE INDEX limit_reading_session ON limit_reading (session_id, window, at);
CREATE INDEX limit_reading_time ON limit_reading (last_at);

-- What else a client's newest status line said of its session.
CREATE TABLE client_report (
    session_id TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    effort TEXT,
    thinking INTEGER,
    fast_mode INTEGER,
    output_style TEXT,
    duration_ms INTEGER, -- Since this client opened the session, in this and the next three.
    api_duration_ms INTEGER, -- Spent waiting for the API.
    lines_added INTEGER,
    lines_removed INTEGER,
    pull_request INTEGER, -- Its number.
    pull_request_url TEXT,
    pull_request_state TEXT,
    cache_requests INTEGER, -- The client's own count of its cache, in this and the next columns.
    cache_misses INTEGER,
    cache_rebuilds INTEGER, -- Rewrites that were expected, such as after a compaction.
    cache_hit_ratio REAL,
    cache_write_tokens INTEGER,
    cache_rewritten_tokens INTEGER, -- Written again because of misses.
    cache_last_miss_at INTEGER,
    cache_miss_causes TEXT NOT NULL, -- JSON, how many misses by the client's name of the cause.
    cache_last_miss_causes TEXT NOT NULL -- JSON, the client's names of the last miss's causes.
) STRICT;

-- What the module inside the client pushed.
CREATE TABLE measurement (
    part_id INTEGER NOT NULL REFERENCES log_part ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    at INTEGER NOT NULL,
    -- The client's event: session.measure, turn.complete, or one that is not known.
    kind TEXT NOT NULL,
    session_id TEXT NOT NULL,
    agent_id TEXT,
    model TEXT, -- As the API names it.
    -- Of the main conversation; NULL before its first answer and after a compaction.
    context_tokens INTEGER,
    window_tokens INTEGER,
    cost_usd REAL,
    PRIMARY KEY (part_id, offset)
) STRICT, WITHOUT ROWID;
CREATE INDEX measurement_session ON measurement (session_id, at);

-- What ctxtop gave the client, or found that a compaction forgot.
CREATE TABLE answer_item (
    part_id INTEGER NOT NULL REFERENCES log_part ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    at INTEGER NOT NULL,
    feature TEXT NOT NULL, -- inject, steer, remember, prompts or cold.
    session_id TEXT NOT NULL,
    agent_id TEXT, -- To whom; NULL for the session itself.
    -- The stage, or what it is: a file, a decision, a constraint, a todo, an agent.
    kind TEXT NOT NULL,
    text TEXT NOT NULL, -- Why it was given, or what it says.
    tokens INTEGER, -- An upper bound of its estimate.
    from_session_id TEXT, -- Whose result it is, with from_agent_id.
    from_agent_id TEXT,
    PRIMARY KEY (part_id, offset)
) STRICT, WITHOUT ROWID;
CREATE INDEX answer_item_session ON answer_item (session_id, feature, at);

-- Lines that could not be read, as in `bad_line`.
CREATE TABLE log_bad_line (
    part_id INTEGER NOT NULL REFERENCES log_part ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    length INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (part_id, offset)
) STRICT;

-- -------------------------------------------------------------------------------------------------
-- The client's configuration. `folder` is where a file was found; `gone` keeps what a file said
-- that no longer exists

-- One with a problem has no rows below: the client ignores it whole.
CREATE TABLE settings_file (
    path TEXT PRIMARY KEY,
    folder TEXT NOT NULL,
    scope TEXT NOT NULL, -- managed, local, project, user or plugin.
    project TEXT,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    gone INTEGER NOT NULL DEFAULT 0,
    hooks TEXT NOT NULL, -- JSON, a list (HookHandler), without what looks like a secret.
    problem TEXT
) STRICT;

CREATE TABLE setting (
    path TEXT NOT NULL REFERENCES settings_file ON DELETE CASCADE,
    key TEXT NOT NULL, -- Dotted: `model`, `env.DISABLE_COMPACT`.
    value TEXT NOT NULL, -- JSON.
    PRIMARY KEY (path, key)
) STRICT, WITHOUT ROWID;

-- Git worktrees that sessions were in, also those that were removed since.
CREATE TABLE worktree (
    path TEXT PRIMARY KEY,
    owner TEXT NOT NULL -- The folder of the repository.
) STRICT, WITHOUT ROWID;

-- Installed plugins.
CREATE TABLE plugin (
    plugin_id TEXT NOT NULL, -- name@marketplace.
    scope TEXT NOT NULL,
    project TEXT NOT NULL, -- Empty where the plugin is installed for every project.
    install_path TEXT NOT NULL,
    version TEXT,
    PRIMARY KEY (plugin_id, scope, project)
) STRICT, WITHOUT ROWID;

-- Definitions of agents and skills.
CREATE TABLE definition (
    path TEXT PRIMARY KEY,
    folder TEXT NOT NULL,
    kind TEXT NOT NULL, -- agent or skill.
    scope TEXT NOT NULL,
    project TEXT,
    plugin_id TEXT,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    gone INTEGER NOT NULL DEFAULT 0,
    name TEXT NOT NULL, -- As the client names it; a plugin's is `plugin:name`.
    skills TEXT NOT NULL, -- JSON, a list.
    auto_compact_window INTEGER,
    model TEXT, -- That an agent is defined with.
    problem TEXT
) STRICT;
CREATE INDEX definition_name ON definition (kind, name);

-- -------------------------------------------------------------------------------------------------
-- claude-memory's saves: in transcripts, and in its own files

-- The line by which the client tells a session why a Stop hook kept it from ending.
CREATE TABLE stop_block (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    uuid TEXT NOT NULL,
    at INTEGER,
    text TEXT NOT NULL,
    lines INTEGER NOT NULL,
    chars INTEGER NOT NULL, -- Of the whole text; `text` may be cut.
    PRIMARY KEY (file_id, offset)
) STRICT, WITHOUT ROWID;

-- Runs of Stop hooks, by the client's own summary of them.
CREATE TABLE hook_run (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    number INTEGER NOT NULL, -- Of the hook in its summary.
    at INTEGER,
    event TEXT NOT NULL, -- Stop, unless the summary names another.
    command TEXT NOT NULL, -- Without what looks like a secret.
    duration_ms INTEGER NOT NULL,
    reason TEXT, -- Why hooks stopped the client, or their errors: all of the summary.
    PRIMARY KEY (file_id, offset, number)
) STRICT, WITHOUT ROWID;

-- What claude-memory said at a prompt: that a save was done, or was not.
CREATE TABLE memory_note (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    at INTEGER,
    text TEXT NOT NULL,
    PRIMARY KEY (file_id, offset)
) STRICT, WITHOUT ROWID;

-- What a save added to its session, measured again while more lines may come.
CREATE TABLE save_noise (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    version INTEGER NOT NULL, -- Of the rules.
    read_to INTEGER NOT NULL, -- How far the file was read for it.
    closed INTEGER NOT NULL, -- 1 where no more lines can come.
    noise TEXT, -- JSON; NULL where the block is not claude-memory's.
    PRIMARY KEY (file_id, offset)
) STRICT, WITHOUT ROWID;

-- Staging folders.
CREATE TABLE save_place (
    path TEXT PRIMARY KEY,
    -- Which version of claude-memory keeps its files there (StagingLocation).
    generation TEXT NOT NULL,
    project TEXT NOT NULL,
    mode INTEGER NOT NULL,
    gone INTEGER NOT NULL DEFAULT 0,
    problem TEXT
) STRICT;

-- One row for each version: what a short-lived file said before is what a save did.
CREATE TABLE save_file (
    version INTEGER PRIMARY KEY,
    path TEXT NOT NULL,
    folder TEXT NOT NULL,
    kind TEXT NOT NULL,
    generation TEXT NOT NULL,
    project TEXT,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    gone INTEGER NOT NULL DEFAULT 0, -- 1 for a version that was replaced or deleted.
    content TEXT, -- JSON (SaveFileContent).
    problem TEXT,
    UNIQUE (path, size, mtime_ns, inode)
) STRICT;

-- claude-memory's logs, one for each day and category of events, and how far each was read.
CREATE TABLE save_log (
    path TEXT PRIMARY KEY,
    folder TEXT NOT NULL,
    project TEXT NOT NULL,
    category TEXT NOT NULL,
    -- Text, as `inode`: some network mounts have numbers that SQLite's integer does not hold.
    device TEXT NOT NULL,
    inode TEXT NOT NULL,
    offset INTEGER NOT NULL,
    anchor TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    gone INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE save_event (
    path TEXT NOT NULL REFERENCES save_log ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    at INTEGER,
    event TEXT NOT NULL,
    duration_ms REAL,
    data TEXT, -- JSON.
    error TEXT, -- JSON.
    problem TEXT, -- Why the line could not be read whole.
    PRIMARY KEY (path, offset)
) STRICT;
CREATE INDEX save_event_name ON save_event (event, at);

-- What the files of an installed claude-memory mention; NULL where such a file is missing.
CREATE TABLE save_plugin (
    install_path TEXT PRIMARY KEY,
    plugin_id TEXT NOT NULL,
    version TEXT,
    mark TEXT NOT NULL, -- By which a change of its files is noticed.
    skill_takes_file INTEGER,
    triage_writes_file INTEGER,
    has_orchestrator INTEGER NOT NULL
) STRICT;

-- -------------------------------------------------------------------------------------------------
-- Warnings

-- The log of warnings: each once, never changed but for its end.
CREATE TABLE warning (
    warning_id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    agent_id TEXT NOT NULL, -- '' is the session itself.
    threshold TEXT NOT NULL, -- Its name.
    level TEXT NOT NULL,
    line_ratio REAL NOT NULL, -- Where the threshold was.
    ratio REAL NOT NULL, -- Of the window that was known then.
    tokens INTEGER NOT NULL,
    window_tokens INTEGER NOT NULL,
    at INTEGER,
    path TEXT NOT NULL,
    offset INTEGER NOT NULL,
    -- The answer's message id or the boundary's uuid: it stays when the file is written anew.
    mark TEXT NOT NULL,
    cleared_at INTEGER, -- When it ended; NULL while it is active.
    cleared_mark TEXT,
    UNIQUE (session_id, agent_id, threshold, mark)
) STRICT;

-- The last answer or boundary of a context that was evaluated.
CREATE TABLE judged_context (
    session_id TEXT NOT NULL,
    agent_id TEXT NOT NULL, -- '' is the session itself.
    offset INTEGER NOT NULL,
    mark TEXT NOT NULL,
    at INTEGER,
    PRIMARY KEY (session_id, agent_id)
) STRICT, WITHOUT ROWID;

-- Up to which byte the contexts of a file were evaluated.
CREATE TABLE judged_file (
    file_id INTEGER PRIMARY KEY REFERENCES file ON DELETE CASCADE,
    offset INTEGER NOT NULL
) STRICT;

-- -------------------------------------------------------------------------------------------------
-- Token counts and forecasts: learned on this machine

-- By how many tokens a context grew from one answer to the next, beside what was counted: the
-- newest 250 for each model.
CREATE TABLE growth (
    file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
    offset INTEGER NOT NULL,
    answer INTEGER NOT NULL, -- Key of the answer's id.
    at INTEGER NOT NULL,
    model TEXT NOT NULL,
    -- Counted tokens, by the kind of their text, in this and the next three columns.
    prose INTEGER NOT NULL,
    code INTEGER NOT NULL,
    json INTEGER NOT NULL,
    other INTEGER NOT NULL,
    fixed INTEGER NOT NULL, -- Tokens known besides: the answer's own, and what stands around texts.
    growth INTEGER NOT NULL, -- What the API reported.
    PRIMARY KEY (file_id, offset)
) STRICT, WITHOUT ROWID;

-- How far a transcript was learned from.
CREATE TABLE learnt (
    file_id INTEGER PRIMARY KEY REFERENCES file ON DELETE CASCADE,
    offset INTEGER NOT NULL, -- Where to read on.
    -- How far it was looked at: beyond `offset` by the answer whose successor is still to come.
    seen INTEGER NOT NULL
) STRICT;

-- Token counts of texts, the 50,000 counted last.
CREATE TABLE text_count (
    key INTEGER PRIMARY KEY, -- Of the text.
    turn INTEGER NOT NULL, -- Which write stored it: the lowest are deleted first.
    kind TEXT NOT NULL, -- ContentKind.
    plain INTEGER NOT NULL, -- Tokens by cl100k_base.
    older INTEGER NOT NULL, -- Estimated for the older of Claude's tokenizers.
    newer INTEGER NOT NULL -- For the newer one.
) STRICT;

-- One row, the newest: how far forecasts were off on this machine.
CREATE TABLE forecast_calibration (
    number INTEGER PRIMARY KEY CHECK (number = 1),
    answers INTEGER NOT NULL, -- How many answers it was measured on.
    errors TEXT NOT NULL -- JSON (ForecastCalibration).
) STRICT, WITHOUT ROWID;

-- -------------------------------------------------------------------------------------------------
-- Decisions, recovery and automation: state that must survive a restart

-- Agents that a person closed by hand.
CREATE TABLE closed_agent (
    session_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (session_id, agent_id)
) STRICT, WITHOUT ROWID;

-- A session's recovery, with the lock of the process that works on it.
CREATE TABLE recovery_run (
    session_id TEXT PRIMARY KEY,
    changed_at INTEGER NOT NULL,
    run TEXT NOT NULL -- JSON (RecoveryRun).
) STRICT, WITHOUT ROWID;

-- What was done to a session without a person asking for it.
CREATE TABLE automatic_run (
    session_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    reason TEXT NOT NULL, -- Why it began.
    outcome TEXT, -- How it ended; NULL while it runs.
    ended_at INTEGER,
    left_tokens INTEGER, -- The size of the context that it left; NULL where it failed.
    receipt TEXT, -- Of what was written.
    PRIMARY KEY (session_id, at)
) STRICT, WITHOUT ROWID;

-- What a pause did to a session, once for each of its newest answers.
CREATE TABLE pause_run (
    session_id TEXT NOT NULL,
    answered_at INTEGER NOT NULL, -- Its newest answer: the state that was paused.
    at INTEGER NOT NULL, -- When a process took it on.
    way TEXT NOT NULL, -- One of `PauseWay`.
    outcome TEXT, -- How it ended; NULL while it runs, or where ctxtop ended meanwhile.
    ended_at INTEGER,
    left_tokens INTEGER, -- The size of the context that it left; NULL where it failed.
    receipt TEXT, -- Of what was written.
    PRIMARY KEY (session_id, answered_at)
) STRICT, WITHOUT ROWID;

-- Runs of the client in the last hour that no person asked for: their number is limited.
CREATE TABLE client_run (
    session_id TEXT NOT NULL,
    at INTEGER NOT NULL -- ms since 1970
) STRICT;
CREATE INDEX client_run_at ON client_run (at);
