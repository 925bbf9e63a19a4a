"""One small feature set for all tests of the benchmark."""

import pytest

from handful.features import FeatureTable, digits


@pytest.fixture(scope="session")
def embedded():
    return FeatureTable(*digits(), name="digits")
