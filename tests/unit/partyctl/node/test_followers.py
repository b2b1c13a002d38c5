"""Who hears what of a turn, and what is kept while nobody listens."""

from partyctl.maps import Map
from partyctl.node.followers import Followers
from partyctl_plugins.events import AssistantText

BEGAN: Map = {"event": "turn"}
LEFT: Map = {"event": "ended", "state": "under way"}
ENDED: Map = {"event": "ended", "state": "answered"}


class Heard:
    """Followers, and what each of them heard: the events, or what was said."""

    def __init__(self) -> None:
        self.by: dict[str, list[object]] = {}
        self.followers = Followers(self._tell)

    def _tell(self, follower: str, message: Map) -> None:
        said = message.get("said")
        told = message.get("state", message["event"]) if not isinstance(said, dict) else said.get("text", said)
        self.by.setdefault(follower, []).append(told)


def test_who_detaches_hears_that_the_turn_has_begun_and_no_more() -> None:
    heard = Heard()
    heard.followers.add("stays")
    heard.followers.add("leaves", detach=True)
    heard.followers.began(BEGAN, LEFT)
    heard.followers.said(AssistantText("x"), "t-1")
    heard.followers.end(ENDED)
    heard.followers.end(ENDED)
    assert heard.by == {"stays": ["turn", "x", "answered"], "leaves": ["turn", "under way"]}


def test_what_nobody_heard_is_heard_by_the_first_who_comes_and_the_rest_by_all() -> None:
    heard = Heard()
    heard.followers.said(AssistantText("early"), "t-1")
    for each in ("first", "second"):
        heard.followers.catch_up(each, "t-1")
    heard.followers.said(AssistantText("late"), "t-1")
    assert heard.by == {"first": ["early", "late"], "second": ["late"]}


def test_how_much_is_not_known_comes_first() -> None:
    heard = Heard()
    for number in range(200):
        heard.followers.said(AssistantText(str(number)), "t-1")
    heard.followers.catch_up("late", "t-1")
    dropped, *known = heard.by["late"]
    assert isinstance(dropped, dict)
    assert dropped["count"] == 200 - len(known)
    assert known[-1] == "199"


def test_what_nobody_heard_of_a_turn_is_not_told_of_the_next() -> None:
    heard = Heard()
    heard.followers.said(AssistantText("old"), "t-1")
    heard.followers.begin()
    heard.followers.catch_up("late", "t-2")
    assert heard.by == {}
