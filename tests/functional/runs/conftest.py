from collections.abc import Iterator

import pytest
from support.party import Party


@pytest.fixture
def party() -> Iterator[Party]:
    made = Party()
    yield made
    made.close()
