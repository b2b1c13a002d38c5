import pytest

from partyctl.cli.moments import moment

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("0", "2026-01-01T00:00:00.000Z"),
        ("90", "2025-12-31T23:58:30.000Z"),
        ("1.5s", "2025-12-31T23:59:58.500Z"),
        ("10m", "2025-12-31T23:50:00.000Z"),
        ("2h", "2025-12-31T22:00:00.000Z"),
        ("1d12h", "2025-12-30T12:00:00.000Z"),
        ("999999d", "1970-01-01T00:00:00.000Z"),
        ("2025-06-01T12:00:00Z", "2025-06-01T12:00:00.000Z"),
        ("2025-06-01T12:00:00.5+02:00", "2025-06-01T10:00:00.500Z"),
        ("2025-06-01T12:00:00-00:00", "2025-06-01T12:00:00.000Z"),
    ],
)
def test_moments_are_given_from_now_or_by_the_calendar(given: str, meant: str) -> None:
    assert moment(given, NOW) == meant


@pytest.mark.parametrize("given", ["", "x", "10x", "m", "-5m", "10 m", "2025-13-01T00:00:00Z", "9999999d", "٣m"])
def test_what_is_no_moment_is_answered_with_what_would_be(given: str) -> None:
    with pytest.raises(ValueError, match=r"no moment.*10m.*2026-01-01T00:00:00\.000Z"):
        moment(given, NOW)
