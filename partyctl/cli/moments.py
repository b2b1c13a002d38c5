"""What people write for a moment in the past: how long ago, or when."""

import re
from datetime import UTC, datetime

from partyctl.logbook import timestamp

_AGO = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9}(?:\.\d{1,6})?)s?)?", re.ASCII)
_WEIGHTS = (86400.0, 3600.0, 60.0, 1.0)


def moment(given: str, now: float) -> str:
    """The moment as the books keep it.

    Args:
        given: "10m", "1d12h", "90" (seconds) ago, or a time in RFC 3339; one without a zone is the machine's own.
        now: seconds since the epoch.

    Raises:
        ValueError: it is neither; says what would be.
    """
    found = _AGO.fullmatch(given)
    if given and found:
        ago = sum(float(part or 0) * weight for part, weight in zip(found.groups(), _WEIGHTS, strict=True))
        return timestamp(max(0.0, now - ago))
    try:
        return timestamp(max(0.0, datetime.fromisoformat(given).astimezone(UTC).timestamp()))
    except (ValueError, OverflowError):
        example = timestamp(now)
        raise ValueError(f"{given!r} is no moment. Say how long ago, as 10m or 1d12h, or when, as {example}.") from None
