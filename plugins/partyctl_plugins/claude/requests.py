"""Requests that the CLI sends to its client. Every one is answered, turn or no turn: the CLI waits for it."""

from partyctl_plugins.claude import frames
from partyctl_plugins.claude.frames import Frame, object_of, text_of


def answer(frame: Frame, *, fail_turn: bool) -> bytes | None:
    """The answer to a frame that asks for one; None for all other frames.

    Args:
        frame: a frame of the CLI.
        fail_turn: whether a request for permission also ends the turn.
    """
    if text_of(frame, "type") != "control_request":
        return None
    request_id = text_of(frame, "request_id")
    subtype = text_of(object_of(frame, "request"), "subtype")
    if subtype == "can_use_tool":
        return frames.denial(request_id, ends_turn=fail_turn)
    return frames.refusal(request_id, f"this client serves no {subtype or 'such'} request")
