"""Asking a node about an agent session: one order, what is told meanwhile, and the last word.

A turn that is under way goes on when its node dies: the next one takes it up. So whoever follows a turn asks the next
node for it; see `partyctl.following`.
"""

from partyctl.control import Control
from partyctl.following import ANSWER_LIMIT, Listener, Losses, Show, follow
from partyctl.maps import Map


async def ask(control: Control, order: Map, show: Show) -> Map:
    """Give an order about an agent session, and follow it to its end. Cancelled, it ends the turn it began.

    Args:
        control: the host.
        order: `session`, `do`, and what goes with it.
        show: told what happens meanwhile.

    Raises:
        RunFailed: it was refused, or the turn failed; with the exit code its error has.
        HostError: the host takes none, or the node or the broker was lost.
    """
    about: Map = {"session": str(order["session"]), "begins": order["do"] in ("send", "again")}
    whole: Map = {**order, "t": "session", "session": about["session"]}
    return await follow(control, about, lambda entry: Asker(entry, {**whole, "run": entry.run}, show))


class Asker(Listener):
    """Hears what a node tells about one order. What begins by it is a turn."""

    losses = Losses(
        absent="the node of the session is not there",
        node="the node of the session is gone",
        broker="the broker was lost meanwhile",
        host="the host ended meanwhile",
    )
    answer_limit = ANSWER_LIMIT

    def hear(self, event: str, message: Map) -> bool:
        """See `Listener.hear`."""
        if event == "ended":
            # An interrupt that was sent afterwards has a last word of its own.
            return message.get("do") in (None, self.order["do"])
        if event == "turn":
            self.begun = str(message.get("turn"))
        self._show(message)
        return False

    def going_on(self) -> Map:
        """See `Listener.going_on`."""
        return self._about("follow")

    def ending(self) -> Map | None:
        """See `Listener.ending`."""
        if self.begun:
            return self._about("interrupt")
        # No turn was heard of: it must not begin, or end if it has.
        return self._about("withdraw") if self.order["do"] in ("send", "again") else None

    def fix(self) -> str:
        """See `Listener.fix`."""
        return "See what became of it with: partyctl sessions show, and partyctl sessions turns"

    def _about(self, doing: str) -> Map:
        about = {key: self.order[key] for key in ("t", "run", "session")}
        return {**about, "do": doing, "turn": self.begun}
