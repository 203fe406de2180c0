/**
 * The module that ctxtop's plugin puts into Claude Code: it tells ctxtop what the client
 * measures, and compacts the session when ctxtop asks for it.
 *
 * It finds ctxtop by register.json beside it, which the installer writes:
 *   {"command": [program and arguments that run collectors/plugin/register_command.py for one store],
 *    "folder": the folder in which ctxtop leaves its requests}
 * Without that file, or without the programs and folders that it names, it does nothing.
 * Whatever goes wrong here, the client goes on: every step has its own catch.
 *
 * What Claude Code 2.1.329 gives a module (seen): it runs in a worker without `process`,
 * `fetch` and `require`, but with timers. `$` must be spelled out at each call, and the name
 * of an event must be a literal, or the module is not loaded. `$.fs` has read, write (0600,
 * not atomic), list, exists, stat, ancestors: nothing appends, renames or locks, so all that
 * is written is written by the command. `$.process.run` gives it stdin; the parent of that
 * process is the client. `session.start` comes once a process, also in `-p`: `isInteractive`
 * is false there, and at its end the client waits for `session.end`. After `/clear`
 * `$.session.id()` is another. `session.measure` comes about 40 ms after `turn.complete` of
 * the main conversation, not after a compaction, and names no model; `turn.complete` of an
 * agent has its `agentId`. `$.session.compact` takes as long as it takes, also from a timer,
 * and rejects in a turn. A plugin in `<config>/skills/` is loaded like one of --plugin-dir.
 */

const POLL_MS = 1000 // a request is taken within 3 s, and a look is one listing of a folder
const FLUSH_MS = 100 // a turn and what it measured are one process
const QUEUE_MOST = 64 // of what a command that hangs keeps waiting
const RECORD_MS = 1500 // the command takes 40 ms; a client that ends waits for it
const CALL_MS = 10_000 // a machine under load carries out a request late rather than not
const FAILURES_MOST = 3 // in a row: ctxtop is gone, and nothing is run any more

// The words of 2.1.329 in a turn, and where there is nothing to summarize.
const REFUSALS = /turn is running|not enough messages/i

let settings = null
let isWorking = false
let failures = 0
let queue = []
let flushing = null

/** Read what the installer wrote; null where it is not there or not its form. */
async function readSettings($) {
  try {
    const { command, folder } = JSON.parse(await $.fs.read(`${$.plugin.root}/hooks/register.json`))
    const isCommand = Array.isArray(command) && command.length > 0 && command.every(isText)
    return isCommand && isText(folder) ? { command, folder } : null
  } catch {
    return null
  }
}

function isText(value) {
  return typeof value === 'string' && value !== ''
}

/** Run ctxtop's command with one of its verbs; give back what it printed, null where it failed. */
async function call($, words, stdin, timeoutMs) {
  try {
    const ended = await $.process.run([...settings.command, ...words], { stdin, timeoutMs })
    if (ended.exitCode === 0) {
      failures = 0
      return ended.stdout
    }
  } catch {
    // It is not there any more, or hangs.
  }
  failures += 1
  if (failures >= FAILURES_MOST) settings = null
  return null
}

/** Hand over what waits in the queue, in its order, one process at a time. */
function flush($) {
  flushing ??= drain($).finally(() => {
    flushing = null
  })
  return flushing
}

async function drain($) {
  while (settings !== null && queue.length > 0) {
    const lines = queue
    queue = []
    await call($, ['record'], lines.join('\n'), RECORD_MS)
  }
}

/** Tell ctxtop of one event, soon. */
async function tell($, event, given) {
  if (settings === null) return
  try {
    const session_id = await $.session.id()
    const model = await $.session.model()
    const line = JSON.stringify({ event, given: { session_id, model, ...given } })
    queue = [...queue, line].slice(-QUEUE_MOST)
    $.clock.after(FLUSH_MS, () => void flush($))
  } catch {
    // A client that is closing has nothing to tell.
  }
}

/** Look for a request to this session, and carry it out. */
async function look($) {
  if (isWorking || settings === null) return
  isWorking = true
  try {
    const start = `${await $.session.id()}.`
    const found = await $.fs.list(settings.folder)
    if (found.some(({ name }) => name.startsWith(start) && name.endsWith('.ask'))) {
      const asked = JSON.parse((await call($, ['take', start.slice(0, -1)], '', CALL_MS)) || '{}')
      if (isText(asked.request)) await carryOut($, asked)
    }
  } catch {
    // No folder: ctxtop has never asked, or is gone.
  }
  isWorking = false
}

async function carryOut($, { session_id, request, text }) {
  const ended = await compact($, text)
  await call($, ['result'], JSON.stringify({ session_id, request, ...ended }), CALL_MS)
}

async function compact($, text) {
  try {
    const done = await $.session.compact(isText(text) ? { instructions: text } : {})
    if (done?.skip !== undefined) return { state: 'refused', why: String(done.skip) }
    return { state: 'done', pre_tokens: done?.tokensBefore, post_tokens: done?.tokensAfter }
  } catch (error) {
    const why = String(error?.message ?? error)
    return { state: REFUSALS.test(why) ? 'refused' : 'failed', why }
  }
}

export function register(on) {
  on('session.start', async ($, e, next) => {
    if (settings === null) {
      settings = await readSettings($)
      if (settings !== null && e.isInteractive === true) {
        void call($, ['hello'], '', CALL_MS)
        $.clock.every(POLL_MS, () => void look($))
      }
    }
    return next(e)
  })

  on('turn.complete', async ($, e, next) => {
    const { turnId, reason, agentId, durationMs, isAborted, usage } = e
    await tell($, 'turn.complete', { turnId, reason, agentId, durationMs, isAborted, usage })
    return next(e)
  })

  on('session.measure', async ($, e, next) => {
    const { context, cost, changed } = e
    await tell($, 'session.measure', { context, cost, changed })
    return next(e)
  })

  on('session.end', async ($, e, next) => {
    await flush($)
    return next(e)
  })
}
