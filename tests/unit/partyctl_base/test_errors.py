from partyctl_base.errors import PartyError


def test_an_error_says_what_where_why_and_what_to_do() -> None:
    error = PartyError("the worker did not start", where="role Writer", why="no such binary", fix="Install it")
    assert str(error) == "the worker did not start (role Writer): no such binary. Install it"


def test_an_error_leaves_out_what_is_not_known() -> None:
    assert str(PartyError("it failed")) == "it failed"
