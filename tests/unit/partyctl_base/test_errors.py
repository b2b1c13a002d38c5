import pickle

from partyctl_base.errors import PartyError


class _Worded(PartyError):
    def __init__(self, limit: float) -> None:
        super().__init__(f"not within {limit:g} s", fix="Wait longer")
        self.limit = limit


def test_an_error_that_words_its_own_message_comes_out_of_another_process_as_it_was() -> None:
    error = _Worded(2)
    error.add_note("seen at the desk")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is _Worded
    assert (str(again), again.limit, again.__notes__) == (str(error), 2, ["seen at the desk"])


def test_an_error_says_what_where_why_and_what_to_do() -> None:
    error = PartyError("the worker did not start", where="role Writer", why="no such binary", fix="Install it")
    assert str(error) == "the worker did not start (role Writer): no such binary. Install it"


def test_an_error_leaves_out_what_is_not_known() -> None:
    assert str(PartyError("it failed")) == "it failed"
