"""The last stage of a training, `--together HEAD`: the network and a head learn together, on tasks of base classes.

    z = (f(x) - m) / |f(x) - m|,  loss = head.loss(head.score(z of the examples, z of the queries))

f is the network. Its batch normalisations keep their statistics (evaluation mode), and nothing is dropped, so that f is
the function that is exported later. Pictures are not augmented, which is faster; a short trial on Omniglot showed no
clear difference. m is the mean feature of base pictures; it is measured again at each validation.

The start is the network of the best epoch, with a head that has already learned on its fixed features. So a gain is
what the head cannot learn alone. Validation on held-out classes chooses the best step. The start is one of the choices:
if nothing is gained, the network stays as it was.

All random numbers of a step depend only on the seed and the number of the step. Parameters, Adam's moments and the mean
are the whole state: a training that was interrupted ends with the same weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.core.arrays import unit
from handful.features import FeatureTable
from handful.training import checkpoint
from handful.training.checkpoint import Checkpoint, with_prefix
from handful.training.datasets import PictureSet
from handful.training.heads.head import Arrays, TaskSampler
from handful.training.heads.learned_base import HEADS, learn_base
from handful.training.heads.trainer import OUTLIER_WAYS, HeadTrainer, heated, is_better
from handful.training.learner import Learner

WAYS, SHOTS = 5, (1, 5)  # of the tasks, if there are enough classes
QUERIES = 5  # of each class; the pictures of one task are in memory at the same time
TASKS_PER_STEP = 4
TASKS_PER_VALIDATION = 200
HEAD_RATE_SHARE = 0.1  # of the head's learning rate on fixed features, where it has already learned
HEAD_FILE = "together.safetensors"  # the state while the head learns on fixed features
STREAM = 5  # of random numbers
MOMENTS = ("exp_avg", "exp_avg_sq")  # of Adam
NETWORK, HEAD = "network.", "head."  # prefixes of the names of parameters


@dataclass
class JointState:
    """How far a joint training is, as plain data for the checkpoint."""

    step: int = 0  # steps that were made
    best_step: int = 0  # 0: the start is the best
    before: dict[str, float] = field(default_factory=dict)  # figures of the start, on held-out classes
    best: dict[str, float] = field(default_factory=dict)  # figures of the best step
    losses: list[float] = field(default_factory=list)  # since the last validation
    rows: list[dict[str, float]] = field(default_factory=list)  # one for each validation


@dataclass(frozen=True)
class Joint:
    """The result of a joint training: the weights of the network, the head's arrays, and a report as plain data.

    If nothing was gained, `weights` are those of the start, and `arrays` is empty.
    """

    weights: dict[str, Tensor]
    arrays: Arrays
    report: dict[str, Any]


class JointTraining:
    """A network and a head that learn together.

    Parameters
    ----------
    learner : Learner
        Its network is trained. `learner.settings` has the head, the number of tasks and the learning rate.
    learning : PictureSet
        The pictures of the base classes, which are those of the learner.
    held_out : PictureSet or None
        Pictures of other classes for validation. None: a quarter of the base classes is not learned from.
    weights : dict of str to Tensor
        The weights from which the network starts.
    """

    def __init__(
        self, learner: Learner, learning: PictureSet, held_out: PictureSet | None, weights: dict[str, Tensor]
    ) -> None:
        self.learner, self.learning, self.held_out, self.weights = learner, learning, held_out, weights
        self.settings, self.head = learner.settings, HEADS[learner.settings.together]
        self.steps = math.ceil(self.settings.together_tasks / TASKS_PER_STEP)
        learner.network.load_state_dict(weights)
        validation = None if held_out is None else _labels_alone(held_out)
        self.trainer = HeadTrainer(_labels_alone(learning), validation, np.zeros(1), WAYS, SHOTS, self.settings.seed)
        items = self.trainer.items
        self.sampler = TaskSampler(items.codes, items.classes, self.trainer.ways, OUTLIER_WAYS, QUERIES)
        self.validation_rows = np.unique(
            np.concatenate(
                [rows.ravel() for tasks in self.trainer.validation_tasks for rows in (tasks.support, tasks.query)]
            )
        )
        self.progress = JointState()
        self.parameters: dict[str, Tensor] = {}  # of network and head; empty before the start
        self.best: dict[str, Tensor] = {}  # parameters of the best step; empty if that is the start
        self.mean = torch.empty(0)  # [D]

    def start(self, file: Path | None, progress: Callable[[int, int], object]) -> None:
        """Let the head learn on the fixed features of the network, and validate it for the first time."""
        name = self.settings.together
        features, others = (
            None if part is None else FeatureTable(self.learner.embed(part.pixels), part.labels, name=part.name)
            for part in (self.learning, self.held_out)
        )
        assert features is not None
        base = learn_base(
            features, validation=others, heads=(name,), negatives=0, ways=WAYS, shots=SHOTS, seed=self.settings.seed,
            checkpoint=file, progress=progress,
        )  # fmt: skip
        heat = base.about["heads"][name]["after"]["heat"]
        self._prepare(heated(self.head, base.heads[name], 1 / heat))  # the temperature at which the loss was learned
        self.progress.before = self.progress.best = self._validate()

    def step(self) -> float:
        """Learn from a few tasks; return the loss before the step."""
        s, number = self.settings, self.progress.step
        rng = np.random.default_rng([s.seed, STREAM, number])
        pace = (1 + math.cos(math.pi * number / self.steps)) / 2
        for group in self.adam.param_groups:
            group["lr"] = group["highest"] * pace
        tasks = self.sampler.draw(rng, TASKS_PER_STEP, int(rng.choice(SHOTS)))
        self.adam.zero_grad()
        value = 0.0
        for i in range(TASKS_PER_STEP):  # one after the other, because the maps of all pictures need much memory
            loss = self._loss(tasks.support[i], tasks.labels[i], tasks.query[i], tasks.known, tasks.truth[i])
            (loss / TASKS_PER_STEP).backward()
            value += loss.item() / TASKS_PER_STEP
        if not math.isfinite(value):
            raise ValueError(
                f"the loss of training together is {value} at step {number}: give a smaller rate than "
                f"{s.together_rate:g} (--together-rate)"
            )
        self.adam.step()
        self.progress.step += 1
        self.progress.losses.append(value)
        return value

    def _loss(self, support: np.ndarray, labels: np.ndarray, query: np.ndarray, known: int, truth: np.ndarray) -> Any:
        """Return the head's loss on one task, of rows of pictures."""
        assert self.head.loss is not None
        z = self.learner.features(np.concatenate([support, query])).cpu()  # heads compute on the CPU
        z = unit(z - self.mean)[None]  # [1, S + Q, D]
        n = len(support)
        scores = self.head.score(self._arrays(), z[:, :n], labels[None], z[:, n:])
        return self.head.loss(scores, known, truth[None])

    @property
    def is_validation_due(self) -> bool:
        """Whether a validation follows the last step."""
        step = self.progress.step
        return step * TASKS_PER_STEP % TASKS_PER_VALIDATION == 0 or step == self.steps

    def validate(self) -> dict[str, float]:
        """Validate, keep the parameters if they are the best, and return a row of figures."""
        progress, result = self.progress, self._validate()
        if is_better(result, progress.best, progress.before):
            progress.best, progress.best_step = result, progress.step
            self.best = {
                name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
                for name, value in self.parameters.items()
            }
        row = {"tasks": progress.step * TASKS_PER_STEP, "loss": float(np.mean(progress.losses))}
        row |= {name: result[name] for name in ("accuracy", "auroc")}
        progress.rows.append(row)
        progress.losses = []
        return row

    def _validate(self) -> dict[str, float]:
        """Measure the mean feature again, and return the head's figures on held-out classes."""
        mean = self.learner.mean_feature()
        self.mean = torch.from_numpy(mean)
        source, first = (self.learning, 0) if self.held_out is None else (self.held_out, len(self.learning))
        features = self.learner.embed(source.pixels[self.validation_rows - first])
        table = np.zeros((len(self.trainer.items.codes), features.shape[1]), np.float32)
        table[self.validation_rows] = unit(features - mean)
        arrays = {name: array.detach().numpy() for name, array in self._arrays().items()}
        return self.trainer.validate(self.head, arrays, table)

    def _prepare(self, arrays: Arrays) -> None:
        """Set the head to these arrays, and make the optimiser."""
        network = dict(self.learner.network.named_parameters())
        head = {name: torch.tensor(value, requires_grad=True) for name, value in arrays.items()}
        self.parameters = {NETWORK + name: value for name, value in network.items()}
        self.parameters |= {HEAD + name: value for name, value in head.items()}
        rate = HEAD_RATE_SHARE * self.head.learning_rate(self.learner.dimension)
        self.adam = torch.optim.Adam(
            [
                {"params": list(network.values()), "highest": self.settings.together_rate},
                {"params": list(head.values()), "highest": rate},
            ]
        )

    def _arrays(self) -> dict[str, Tensor]:
        return with_prefix(self.parameters, HEAD)

    def state(self) -> dict[str, Tensor]:
        """Return the tensors on which the next step depends, and those of the best step."""
        tensors = {f"now.{name}": value for name, value in self.parameters.items()}
        for moment in MOMENTS:
            moments = {name: self.adam.state.get(value, {}).get(moment) for name, value in self.parameters.items()}
            tensors |= {f"{moment}.{name}": value for name, value in moments.items() if value is not None}
        tensors |= {f"best.{name}": value for name, value in self.best.items()} | {"mean": self.mean}
        return {
            name: value.detach().cpu().clone(memory_format=torch.contiguous_format) for name, value in tensors.items()
        }

    def restore(self, progress: dict[str, Any], state: dict[str, Tensor]) -> None:
        """Continue from a checkpoint."""
        self.progress = JointState(**progress)
        now = with_prefix(state, "now.")
        self._prepare({name: array.numpy() for name, array in with_prefix(now, HEAD).items()})
        moments = {moment: with_prefix(state, f"{moment}.") for moment in MOMENTS}
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(now[name])
                if name in moments[MOMENTS[0]]:
                    self.adam.state[parameter] = {"step": torch.tensor(float(self.progress.step))} | {
                        moment: torch.empty_like(parameter).copy_(moments[moment][name]) for moment in MOMENTS
                    }  # in the parameter's own layout
        self.best, self.mean = with_prefix(state, "best."), state["mean"]

    def result(self) -> Joint:
        """Return the best weights and arrays, and how they were found."""
        s = self.progress
        weights = self.weights | with_prefix(self.best, NETWORK)
        arrays = {name: array.numpy() for name, array in with_prefix(self.best, HEAD).items()}
        report = {
            "head": self.settings.together, "tasks": s.step * TASKS_PER_STEP, "best": s.best_step * TASKS_PER_STEP,
            "gained": s.best_step > 0, "held_out": self.trainer.held_out, "before": s.before, "after": s.best,
        }  # fmt: skip
        return Joint(weights, arrays, report)


def train_together(
    learner: Learner,
    at: Checkpoint,
    learning: PictureSet,
    held_out: PictureSet | None,
    folder: Path,
    save_every: float,
    progress: Callable[[str, int, int], object] = lambda name, done, total: None,
    on_validation: Callable[[dict[str, float]], object] = lambda row: None,
) -> Joint:
    """Train the network of the best epoch together with a head, with a checkpoint every `save_every` seconds.

    Parameters
    ----------
    learner : Learner
        The network in training. It has the best weights afterwards.
    at : Checkpoint
        A finished pretraining, perhaps with a joint training that has begun.
    learning, held_out : PictureSet, PictureSet or None
        The pictures of base classes, and of classes for validation.
    folder : Path
        The folder of the checkpoint.
    save_every : float
        Seconds between two checkpoints.
    progress : callable
        Called with the name of the part, the number of tasks learned from, and the number of all tasks.
    on_validation : callable
        Called with a row of figures after each validation.

    Returns
    -------
    Joint
    """
    training = JointTraining(learner, learning, held_out, at.weights)
    begun, before = time.monotonic(), at.seconds
    saved = begun

    def save() -> None:
        at.together, at.together_state = asdict(training.progress), training.state()
        at.seconds = before + time.monotonic() - begun
        checkpoint.write(at, folder)

    if at.together:
        training.restore(at.together, at.together_state)
    else:
        training.start(folder / HEAD_FILE, lambda done, total: progress("head", done, total))
        save()
    (folder / HEAD_FILE).unlink(missing_ok=True)
    reached, total = training.progress, training.steps * TASKS_PER_STEP
    progress("together", reached.step * TASKS_PER_STEP, total)
    while reached.step < training.steps:
        training.step()
        if training.is_validation_due:
            on_validation(training.validate())
        progress("together", reached.step * TASKS_PER_STEP, total)
        if reached.step == training.steps or time.monotonic() - saved >= save_every:
            save()
            saved = time.monotonic()
    result = training.result()
    learner.network.load_state_dict(result.weights)
    return result


def _labels_alone(pictures: PictureSet) -> FeatureTable:
    """Return a table with labels and without features: which tasks are drawn depends only on the labels."""
    return FeatureTable(np.zeros((len(pictures), 1), np.float32), pictures.labels, name=pictures.name)
