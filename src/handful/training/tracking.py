"""Curves of a training in TensorBoard or MLflow, if they are installed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from handful.utils.extras import need

TRACKERS = ("tensorboard", "mlflow")
AUTO, NONE = "auto", "none"


class Tracker(Protocol):
    """A function that records the figures of an epoch."""

    def __call__(self, row: Mapping[str, Any], step: int) -> None:
        """Record a row of figures at a step."""


@contextmanager
def tracker(which: str, folder: Path, about: Mapping[str, Any]) -> Iterator[Tracker]:
    """Yield the function that records rows of figures.

    "auto" means TensorBoard if it is installed, otherwise MLflow if MLFLOW_TRACKING_URI is set, otherwise nothing.
    """
    if which not in (AUTO, NONE, *TRACKERS):
        raise ValueError(f"there is no tracker {which!r}: choose from {', '.join((AUTO, NONE, *TRACKERS))}")
    if which == AUTO:
        which = "tensorboard" if find_spec("tensorboard") else NONE
        if which == NONE and find_spec("mlflow") and "MLFLOW_TRACKING_URI" in os.environ:
            which = "mlflow"
    if which == "tensorboard":
        need("tensorboard", "--track tensorboard", "tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(str(folder / "tensorboard")) as writer:

            def to_board(row: Mapping[str, Any], step: int) -> None:
                for name, value in _numbers(row).items():
                    writer.add_scalar(name, value, step)

            yield to_board
    elif which == "mlflow":
        mlflow = need("mlflow", "--track mlflow", "mlflow")
        with mlflow.start_run(run_name=folder.name):
            mlflow.log_params({name: str(value) for name, value in about.items()})

            def to_server(row: Mapping[str, Any], step: int) -> None:
                try:
                    mlflow.log_metrics(_numbers(row), step=step)
                except mlflow.exceptions.MlflowException as error:  # a missing server must not stop a training
                    warnings.warn(f"MLflow did not accept the figures of epoch {step}: {error}", stacklevel=2)

            yield to_server
    else:
        yield lambda row, step: None


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in row.items() if isinstance(value, int | float)}
