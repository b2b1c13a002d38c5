"""The provider `scripted`: plays a list of steps instead of asking a model. For tests, demonstrations and load.

`options={"script": "path/to/file.toml"}`, relative to the conversation's working directory. The file holds one
`[[turn]]` per turn, each with its steps in order::

    [[turn]]
    steps = [
        { think = 0.01 },
        { tool = { name = "read", args = { path = "notes.txt" }, stdout = "three lines" } },
        { stream = ["I have ", "read it."] },
    ]

    [[turn]]
    steps = [
        { say = { label = "Draft", payload = { text = "Tides follow the moon." } } },
    ]

    [[turn]]
    steps = [
        { fail = { kind = "transient", message = "the model is overloaded" } },
    ]

The same can be given in place, as `options={"script": [[{"say": "hello"}], ...]}`: a list of turns, each a list of
steps.

============================  ========================================================================================
step                          what happens
============================  ========================================================================================
`say = TEXT`                  says it; the last thing said is the answer
`say = {label, payload}`      says it as JSON, and gives it as structured output
`stream = [TEXT, ...]`        says it piece by piece
`think = SECONDS`             waits; an interrupt or the turn's timeout ends it
`tool = NAME`                 uses a tool; also `{name, args, stdout, stderr, exit_code}`
`fail = KIND`                 fails the turn: transient, usage_limit, auth, schema, context_overflow or other;
                              also `{kind, message, resets_at}`, the latter in seconds since the epoch
`refuse_resume = true`        fails the turn because the conversation to go on with is gone
`crash = STATUS`              ends the process with that exit status
`crash = "SIGKILL"`           ends the process by that signal
`hang = true`                 waits for ever; an interrupt or the turn's timeout ends it
`flood_stderr = BYTES`        writes that much to standard error
`ignore_interrupts = true`    from here to the end of the turn an interrupt changes nothing
`await_steer = true`          waits for a message into the turn; an interrupt or the turn's timeout ends it
`exit_after_result = STATUS`  when the turn's result has been sent, the process ends with that status
============================  ========================================================================================

`crash` and `exit_after_result` end whatever process the transport runs in. Beside the turns a file may say
`refuse_resume = true`: then a conversation opened with a `resume_id` is refused at once.

A script is read from its first turn when the transport is made; its conversations share the position, and every attempt
takes one turn, the failed ones too. `options={"state": "path"}` keeps the position in a file, so that a transport in a
new process goes on where the last one stopped. A turn past the end fails and says so.

Usage is counted in words: those of the prompt are input tokens, those said are output tokens.
"""

from collections.abc import Mapping

from partyctl_plugins import hookimpl
from partyctl_plugins.contract import Transport, TransportKind
from partyctl_plugins.scripted.transport import ScriptedTransport


@hookimpl
def partyctl_transport(kind: TransportKind, options: Mapping[str, object]) -> Transport:
    """The same for every kind: there is nothing to connect to."""
    return ScriptedTransport(options)
