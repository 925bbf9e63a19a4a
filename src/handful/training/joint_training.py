"""The last stage of a training, `--together HEAD`: the network and a head learn together, on tasks of base classes.

z = (f(x) - m) / |f(x) - m|,  loss = head.loss(head.score(z of the examples, z of the queries))
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.core.arrays import unit
from handful.features import FeatureTable
from handful.training.datasets import PictureSet
from handful.training.heads.head import TaskSampler
from handful.training.heads.learned_base import HEADS, learn_base
from handful.training.heads.trainer import OUTLIER_WAYS, HeadTasks, heated
from handful.training.learner import Learner
from handful.training.learning import Arrays, Progress, Stage, copied, cosine, with_prefix

WAYS, SHOTS = 5, (1, 5)  # of the tasks, if there are enough classes
QUERIES = 5  # of each class; the pictures of one task are in memory at the same time
TASKS_PER_STEP = 4
TASKS_PER_VALIDATION = 200
HEAD_RATE_SHARE = 0.1  # of the head's learning rate on fixed features, where it has already learned
STREAM = 5  # of random numbers
NETWORK, HEAD = "network.", "head."  # prefixes of the names of parameters


class JointTraining(Stage):
    """The best network of a learner and a head; `head_file` and `progress` are of the head on the fixed features."""

    def __init__(
        self,
        learner: Learner,
        made_from: Mapping[str, Any] | None = None,
        head_file: Path | None = None,
        progress: Progress = lambda done, total: None,
    ) -> None:
        s = self.settings = learner.settings
        super().__init__("together", math.ceil(s.together_tasks / TASKS_PER_STEP), made_from or {})
        self.learner, self.head, self.head_file, self.head_progress = learner, HEADS[s.together], head_file, progress
        if learner.best:
            learner.load(learner.best)
        validation = None if learner.held_out is None else _labels_alone(learner.held_out)
        self.tasks = HeadTasks(_labels_alone(learner.pictures), validation, np.zeros(1), WAYS, SHOTS, s.seed)
        items = self.tasks.items
        self.sampler = TaskSampler(items.codes, items.classes, self.tasks.ways, OUTLIER_WAYS, QUERIES)
        drawn = [rows.ravel() for tasks in self.tasks.validation_tasks for rows in (tasks.support, tasks.query)]
        self.validation_rows = np.unique(np.concatenate(drawn))

    def start(self) -> None:
        """Let the head learn on the fixed features of the network, and validate it for the first time."""
        name, learner = self.settings.together, self.learner
        base = learn_base(
            learner.table(learner.pictures),
            validation=None if learner.held_out is None else learner.table(learner.held_out),
            heads=(name,), negatives=0, ways=WAYS, shots=SHOTS, seed=self.settings.seed,
            checkpoint=self.head_file, progress=self.head_progress,
        )  # fmt: skip
        heat = base.about["heads"][name]["after"]["heat"]
        arrays = heated(self.head, base.heads[name], 1 / heat)  # the temperature at which the loss was learned
        self.prepare({HEAD + key: array for key, array in arrays.items()})
        self.reached.before = self.reached.best = self.figures()

    def prepare(self, arrays: Arrays) -> None:
        """Make the head of these arrays, and the optimiser."""
        network = dict(self.learner.network.named_parameters())
        self.head_arrays: dict[str, Tensor] = {
            name: torch.tensor(array, requires_grad=True) for name, array in with_prefix(arrays, HEAD).items()
        }
        self.mean = torch.zeros(self.learner.dimension)  # [D]
        self.tensors = {NETWORK + name: value for name, value in network.items()}
        self.tensors |= {HEAD + name: value for name, value in self.head_arrays.items()} | {"mean": self.mean}
        rate = HEAD_RATE_SHARE * self.head.learning_rate(self.learner.dimension)
        self.optimiser = torch.optim.Adam(
            [
                {"params": list(network.values()), "highest": self.settings.together_rate},
                {"params": list(self.head_arrays.values()), "highest": rate},
            ]
        )

    def step(self, number: int) -> float:
        """Learn from a few tasks."""
        s = self.settings
        rng = np.random.default_rng([s.seed, STREAM, number])
        self.set_rate(cosine(number / self.steps))
        tasks = self.sampler.draw(rng, TASKS_PER_STEP, int(rng.choice(SHOTS)))
        self.optimiser.zero_grad()
        value = 0.0
        for i in range(TASKS_PER_STEP):  # one after the other, because the maps of all pictures need much memory
            loss = self.loss(tasks.support[i], tasks.labels[i], tasks.query[i], tasks.known, tasks.truth[i])
            (loss / TASKS_PER_STEP).backward()
            value += loss.item() / TASKS_PER_STEP
        if not math.isfinite(value):
            raise ValueError(
                f"the loss of training together is {value} at step {number}: give a smaller rate than "
                f"{s.together_rate:g} (together_rate of the settings)"
            )
        self.optimiser.step()
        return value

    def loss(self, support: np.ndarray, labels: np.ndarray, query: np.ndarray, known: int, truth: np.ndarray) -> Any:
        """Return the head's loss on one task, of rows of pictures."""
        assert self.head.loss is not None
        z = self.learner.features(np.concatenate([support, query])).cpu()  # heads compute on the CPU
        z = unit(z - self.mean)[None]  # [1, S + Q, D]
        n = len(support)
        scores = self.head.score(self.head_arrays, z[:, :n], labels[None], z[:, n:])
        return self.head.loss(scores, known, truth[None])

    def is_validation_due(self) -> bool:
        """After every 200 tasks, and at the end."""
        step = self.reached.step
        return step * TASKS_PER_STEP % TASKS_PER_VALIDATION == 0 or step == self.steps

    def validate(self) -> dict[str, Any]:
        """Return the number of tasks, the mean loss, and the head's figures on held-out classes."""
        tasks, loss = self.reached.step * TASKS_PER_STEP, float(np.mean(self.reached.losses))
        return {"tasks": tasks, "loss": loss, **self.figures()}

    def figures(self) -> dict[str, float]:
        """Measure the mean feature again, and return the head's figures on held-out classes."""
        learner, mean = self.learner, self.learner.mean_feature()
        self.mean.copy_(torch.from_numpy(mean))
        source, first = learner.pictures, 0
        if learner.held_out is not None:
            source, first = learner.held_out, len(learner.pictures)  # the rows of `tasks` count both
        features = learner.embed(source.pixels[self.validation_rows - first])
        table = np.zeros((len(self.tasks.items.codes), features.shape[1]), np.float32)
        table[self.validation_rows] = unit(features - mean)
        return self.tasks.validate(self.head, copied(self.head_arrays), table)

    def result(self, figures: Mapping[str, Any]) -> Arrays:
        """Return the parameters of network and head."""
        return copied(self.tensors)

    def report(self) -> dict[str, Any]:
        """Return what was gained, as plain data."""
        s = self.reached
        return {
            "head": self.settings.together, "tasks": s.step * TASKS_PER_STEP, "best": s.best_step * TASKS_PER_STEP,
            "gained": s.best_step > 0, "held_out": self.tasks.held_out, "before": s.before, "after": s.best,
        }  # fmt: skip


def _labels_alone(pictures: PictureSet) -> FeatureTable:
    """Return a table with labels and without features: which tasks are drawn depends only on the labels."""
    return FeatureTable(np.zeros((len(pictures), 1), np.float32), pictures.labels, name=pictures.name)
