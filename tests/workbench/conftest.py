"""A project of the digits of a module, which has a fixture `digits`: the folder of their table, and their kinds."""

import pytest
from workbenches import client_of


@pytest.fixture
def project(digits, tmp_path):
    from handful.project.live import LiveProject

    opened = LiveProject(digits[0] / "digits.parquet", tmp_path / "project")
    yield opened
    opened.close()


@pytest.fixture
def client(project):
    return client_of(project)
