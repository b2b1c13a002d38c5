"""Bringing a CLI process up: spawn, `initialize`, its reply.

Rules: the reply to `initialize` says that the process is ready; `system/init` does not, it opens every turn. A CLI that
refuses a resume writes an error result, never replies, and exits.
"""

import os
import signal
from collections.abc import Callable, Mapping

from partyctl_base.clock import Clock
from partyctl_plugins.claude import classify, command, frames, requests
from partyctl_plugins.claude.command import StreamOptions
from partyctl_plugins.claude.frames import Frame, Noise, object_of, text_of
from partyctl_plugins.claude.inbox import Broken, Ended
from partyctl_plugins.claude.outcome import FIXES
from partyctl_plugins.claude.process import CliProcess
from partyctl_plugins.contract import (
    ApprovalPolicy,
    CliExitError,
    ConversationSpec,
    SessionResumeError,
    TurnFailedError,
    TurnTimeoutError,
)


def spawn(
    spec: ConversationSpec, resume_id: str | None, options: StreamOptions, environ: Mapping[str, str], clock: Clock
) -> CliProcess:
    """Start the process.

    Raises:
        TurnFailedError: there is no such command or directory, or it cannot be executed.
    """
    binary = command.find_binary(options.binary, environ)
    fail_turn = spec.approvals is ApprovalPolicy.FAIL_TURN
    try:
        return CliProcess(
            command.arguments(binary, spec, resume_id),
            command.child_environment(environ, root=os.geteuid() == 0),
            spec.cwd,
            clock=clock,
            answer=lambda frame: requests.answer(frame, fail_turn=fail_turn),
            max_line=options.max_line_bytes,
            write_timeout=options.write_timeout_s,
        )
    except OSError as error:
        raise TurnFailedError(
            "claude could not be started",
            where=f"{binary} in {spec.cwd}",
            why=str(error),
            fix="Check that the working directory exists and the command is executable.",
        ) from error


def shake_hands(
    process: CliProcess,
    request_id: str,
    resume_id: str | None,
    *,
    timeout: float,
    clock: Clock,
    check: Callable[[], None],
) -> None:
    """Send `initialize` and wait for its reply.

    Args:
        process: a fresh process, attended.
        request_id: the id of the request.
        resume_id: the conversation it was started to resume.
        timeout: seconds the reply may take.
        clock: where time comes from.
        check: raises if the wait is to be given up; asked whenever there is news or a nudge.

    Raises:
        SessionResumeError: the conversation is gone.
        CliExitError: it ended instead.
        TurnTimeoutError: it did not reply.
        TurnFailedError: it replied with an error, or cannot be talked to.
    """
    deadline = clock.monotonic() + timeout
    process.write(frames.initialize(request_id))
    last: Frame = {}
    while True:
        check()
        item = process.read(deadline)
        if item is None:
            if clock.monotonic() >= deadline:
                raise TurnTimeoutError(timeout, where="start of claude", why=process.stderr.strip()[-500:])
        elif isinstance(item, Ended):
            raise _ended(process, item.returncode, last, resume_id)
        elif isinstance(item, Broken):
            raise broken(process, item.why)
        elif isinstance(item, Noise):
            continue
        elif text_of(item, "type") == "result":
            last = item
        elif text_of(item, "type") == "control_response":
            response = object_of(item, "response")
            if text_of(response, "request_id") != request_id:
                continue
            if text_of(response, "subtype") == "success":
                return
            raise TurnFailedError("claude refused to initialize", why=text_of(response, "error"))


def broken(process: CliProcess, why: str) -> TurnFailedError:
    """The error for a process that cannot be talked to."""
    return TurnFailedError(
        "claude cannot be talked to any more", where=f"pid {process.pid}", why=why, detail=process.stderr
    )


def ended(process: CliProcess, returncode: int, last: Frame, error: str, where: str) -> CliExitError:
    """The error for a process that ended on its own.

    Args:
        process: the process.
        returncode: its exit status, minus the signal number if a signal ended it.
        last: the last result frame it wrote; empty if none.
        error: the `error` of the last synthetic assistant frame.
        where: what it was doing.
    """
    kind = classify.kind_of(classify.symptoms(last, error, process.stderr))
    how = f"was killed by {_signal_name(-returncode)}" if returncode < 0 else f"exited with status {returncode}"
    words = classify.said(last) or process.stderr.strip()
    return CliExitError(
        process.argv,
        returncode,
        stderr=process.stderr,
        message=f"claude {how}",
        kind=kind,
        detail=words,
        where=where,
        why=words[-500:] or "it said nothing on stderr",
        fix=FIXES.get(kind, ""),
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _ended(process: CliProcess, returncode: int, last: Frame, resume_id: str | None) -> CliExitError:
    if resume_id is not None and classify.refuses_resume(last, process.stderr):
        return SessionResumeError(
            process.argv,
            returncode,
            resume_id,
            stderr=process.stderr,
            detail=classify.said(last),
            why=classify.said(last) or process.stderr.strip()[-500:],
        )
    return ended(process, returncode, last, "", "start of claude")
