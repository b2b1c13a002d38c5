"""A test that takes a `document` runs once for each there is."""

import pytest
from support.documents import DOCUMENTS, Document


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run for each document, named by its path."""
    if "document" in metafunc.fixturenames:
        metafunc.parametrize("document", [Document(path) for path in DOCUMENTS], ids=DOCUMENTS)
