"""What `handful.solve` gives: the answers of a method for the items of a task, and how they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.core.answers import Answers
from handful.core.arrays import as_like, to_numpy
from handful.core.task import Task
from handful.engines.share_statistics import TRIED_SHARES
from handful.methods.registry import Solution
from handful.solving.ask import belief, worth_asking
from handful.solving.check import Checked, check_answers, draw_sample
from handful.solving.groups import Group, Groups, Promoted, check_examples, check_names, group_unknowns, lower_share
from handful.utils.extras import PARQUET, need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_GROUPED_UNASKED = 1000  # unknown items that a notebook groups by itself; more take longer than a cell should


class Result(Answers):
    """The answers for the queries of one task, arrays [Q, ...], or of a batch of tasks, arrays [B, Q, ...].

    What each number means is said once, in `handful.core.answers`: `labels`, `closest`, `unknown`, `p_unknown`,
    `confidence`, `class_probabilities`, `expected_precision`.
    `result.at_precision(0.9)` sets the least sure labels aside, until 90 % of the others should be right.

    Attributes
    ----------
    solution : Solution
        What the method returned; most of the following is read from it.
    probabilities : array [Q, N] or [B, Q, N]
        One number for each known class, as the method defines them (EOL: P(class and known)).
    outlier_scores : array [Q] or [B, Q]
        High means more likely unknown.
    classes : array [N] or [B, N]
        The names of the columns of `probabilities`.
    threshold : float or array [B]
        An item is called unknown where `doubts` are above it. At 0.5 the most probable answer is given.
    outlier_share : float or array [B]
        The share of unknowns that the method worked with.
    outlier_share_interval : array [2] or [B, 2], or None
        Where the share was estimated: it should lie in this interval four times in five.
    outlier_share_posterior : array [G] or [B, G], or None
        Where the share was estimated: P(share > g) for each g of `handful.engines.share_statistics.TRIED_SHARES`.
    is_calibrated : bool
        Whether outlier scores are P(unknown) as they are; others are corrected by the share and the shots.
    precision_spread : array [2] or [B, 2], or None
        How far the precision of labels may be below and above the expected one, in log-odds.
    made_by : dict
        Method, parameters, preparation, versions.
    state : dict of arrays [B, ...]
        What scoring new items needs.
    history : array [steps + 1] or [B, steps + 1], or None
        Losses, if they were asked for.
    task : Task
        What was solved.
    """

    def __init__(self, solution: Solution, task: Task, made_by: Mapping[str, Any]) -> None:
        super().__init__(
            solution.probabilities, solution.outlier_scores, task.classes, solution.threshold,
            is_probability=made_by["score"] == "probability", outlier_share=solution.outlier_share,
            shots=None if solution.is_calibrated else task.shots.mean(axis=1),
            precision_spread=solution.precision_spread,
        )  # fmt: skip
        self.task, self.made_by, self.state, self.history = task, dict(made_by), solution.state, solution.history
        self.outlier_share_interval, self.outlier_share_posterior = solution.share_interval, solution.share_posterior
        self.is_calibrated, self._solution = solution.is_calibrated, solution

    @property
    def examples(self) -> dict[str, np.ndarray] | None:
        """Where each example landed when it was hidden in the pile, columns [S] in the order of the examples.

        `label`; `p_own`, the probability of its own class; `rank`, the part of the pile that looks more known. A low
        `p_own` may be a wrong label. Both are nan for the only example of a class, which cannot be hidden. None where
        the method does not try it. Of one task.

        Examples
        --------
        >>> import handful
        >>> rng = np.random.default_rng(0)
        >>> cats, dogs, hens = (rng.normal(scale=0.3, size=(20, 8)) + 2 * np.eye(8)[k] for k in range(3))
        >>> support, pile = np.concatenate([cats[:5], dogs[:5]]), np.concatenate([cats[5:], dogs[5:], hens])
        >>> labels = ["cat"] * 4 + ["dog"] * 6  # the last cat is called a dog
        >>> int(handful.solve(support, labels, pile).examples["p_own"].argmin())
        4
        """
        if self._solution.examples is None:
            return None
        task = self._one_task("a table of examples")
        hidden = {name: values[: len(task.labels[0])] for name, values in self._solution.examples.items()}
        return {"label": task.all_classes[0][task.labels[0]], **hidden}

    @cached_property
    def groups(self) -> Groups:
        """The unknown items as groups that look alike, candidates for new classes, the largest first. Of one task.

        Of a method that opens classes itself, they are those classes.
        """
        return self.find_groups()

    def find_groups(self, detail: float = 0.0) -> Groups:
        """The same, coarser or finer.

        Parameters
        ----------
        detail : float
            From -2 (few, coarse groups) to 2 (many, fine groups); 0 gives `groups`.
        """
        task = self._one_task()
        return group_unknowns(task, to_numpy(self.likely_unknown), detail, self.state)  # not labels that are too unsure

    def promote(
        self,
        names: dict[int, Any],
        examples: int | None = None,
        *,
        join: bool = False,
        groups: Sequence[Group] | None = None,
    ) -> Promoted:
        """Make classes of groups: a task whose support also holds items that span each named group.

        Parameters
        ----------
        names : dict
            A class name for each group, by the number of the group. Two groups of one name become one class.
        examples : int, optional
            How many items of a group become examples, at most. By default a third of it, at least 5 and at most 100; if
            it looks like two kinds two thirds, if like more all.
        join : bool
            Whether a name may be that of a class that exists: the group is added to that class.
        groups : sequence of Group, optional
            The groups that the numbers mean, if they are not those of `groups`: from `find_groups`, or split or joined.

        Returns
        -------
        Promoted
            The new task, the rows of the old pile that are left in it, and the outlier share to solve it with: the
            share of before, less the groups. ::

                new = result.promote({1: "wheel"})
                second = handful.solve(new.task, outlier_share=new.outlier_share)
                dict(zip(new.rest, second.labels))  # by their place in the old pile
        """
        task = self._one_task()
        by_number = {group.number: group for group in (self.groups if groups is None else groups)}
        check_examples(examples)
        check_names(names, by_number, task.classes.tolist(), join)
        picked = {number: by_number[number].exemplars(examples) for number in names}
        taken = np.concatenate(list(picked.values()))
        rest = np.setdiff1d(np.arange(len(self)), taken)
        if not len(rest):
            raise ValueError("nothing of the pile is left to solve: make fewer of its items examples")
        query, labels = to_numpy(task.query[0]), task.classes[task.labels[0]].tolist()
        labels += [names[number] for number, rows in picked.items() for _ in rows]
        support = np.concatenate([to_numpy(task.support[0]), query[taken]])
        part = sum(by_number[number].size for number in names) / int(to_numpy(self.likely_unknown).sum())
        share = lower_share(float(self.outlier_share), part, len(rest) / len(self))
        new = Task(as_like(support, task.support), labels, as_like(query[rest], task.query))  # torch in, torch out
        return Promoted(new, rest, share)

    def check(self, count: int, seed: int = 0) -> np.ndarray:
        """Items that a person should look at, to find out how many labels are right.

        Parameters
        ----------
        count : int
            How many, at most. The first k of a longer draw are the draw of k.
        seed : int
            Another seed draws other items.

        Returns
        -------
        array of int
            Their places in the pile, in the order in which to ask; see `handful.solving.check.draw_sample`.

        Examples
        --------
        >>> import handful
        >>> rng = np.random.default_rng(0)
        >>> cats, dogs, hens = (rng.normal(scale=0.3, size=(40, 8)) + 2 * np.eye(8)[k] for k in range(3))
        >>> support, pile = np.concatenate([cats[:5], dogs[:5]]), np.concatenate([cats[5:], dogs[5:], hens])
        >>> result = handful.solve(support, ["cat"] * 5 + ["dog"] * 5, pile)
        >>> truth = ["cat"] * 35 + ["dog"] * 35 + ["unknown"] * 40
        >>> checked = result.checked({row: truth[row] for row in result.check(20)})
        >>> bool(checked.precision.low > 0.8), bool(checked.share.low < 40 / 110 < checked.share.high)
        (True, True)
        """
        return draw_sample(self, count, seed=seed)

    def checked(self, truth: Mapping[int, Any]) -> Checked:
        """How many labels are right, from what a person said of the items of `check`.

        Parameters
        ----------
        truth : mapping of int to class
            By the place of an item in the pile: its class; -1 or "unknown" if it belongs to none of the classes;
            `handful.solving.WRONG` if its label is wrong and nothing more is known.

        Returns
        -------
        Checked
            Precision, share of unknowns and precision by class, with 90 % intervals, and the same in words.
        """
        return check_answers(self, truth)

    def ask(self, count: int = 5) -> np.ndarray:
        """The items that are most worth an answer from a person, by their place in the pile. Of one task.

        Add the answers to the examples, or to `unknown` if an item belongs to no class, and solve again.

        Parameters
        ----------
        count : int
            How many items, at most.
        """
        task = self._one_task()
        groups = [group.items for group in self.groups]
        return worth_asking(to_numpy(task.query[0]), belief(self), count, groups=groups)

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` with one row for each item; needs the extra `parquet`.

        Columns: label, closest, unknown, confidence, outlier_score, p_unknown, and p_<class>: P(class | known).
        """
        pa = need("pyarrow", "to_arrow()", PARQUET)
        return pa.table({name: pa.array(values.tolist()) for name, values in self.columns().items()})

    def to_pandas(self) -> Any:
        """The same as a pandas DataFrame."""
        pandas = need("pandas", "to_pandas()", "pandas")
        return pandas.DataFrame({name: values.tolist() for name, values in self.columns().items()})

    def columns(self) -> dict[str, np.ndarray[Any, Any]]:
        """The columns of that table as arrays [n], by name."""
        if np.ndim(self.unknown) == 2:
            raise ValueError("a table is of one task: take result[i] of a batch first")
        columns = {
            "label": self.labels,
            "closest": self.closest,
            "unknown": to_numpy(self.unknown),
            "confidence": to_numpy(self.confidence),
            "outlier_score": to_numpy(self.outlier_scores),
        }
        if self.p_unknown is not None:
            columns["p_unknown"] = self.p_unknown
        probabilities = to_numpy(self.class_probabilities)
        columns |= {f"p_{name}": probabilities[:, j] for j, name in enumerate(self.classes)}
        return {name: np.asarray(values) for name, values in columns.items()}

    def plot(self, pictures: Any = None) -> Figure:
        """Draw the result with matplotlib; needs the extra `plots`. Of one task.

        Parameters
        ----------
        pictures : sequence or array, optional
            For each item of the pile, in their order, the path of its picture, an image of Pillow, or an array [H, W]
            or [H, W, 3]; or all of them as one array [n, H, W] or [n, H, W, 3]. The map shows some of them.

        Returns
        -------
        matplotlib.figure.Figure
            Panels for the counts, the outlier scores, the share of unknowns (if it was estimated) and the map. Save it
            with `savefig`, or change it.
        """
        from handful.report.plots import draw_result

        task, posterior = self._one_task("a plot"), self.outlier_share_posterior
        is_in_memory = not task.is_large
        return draw_result(
            self,
            str(self.made_by["method"]),
            share_interval=self.outlier_share_interval,
            share_posterior=None if posterior is None else (TRIED_SHARES, posterior),
            groups=self._groups_at_hand() or (),
            features=(lambda rows: task.query[0][rows]) if is_in_memory else None,
            examples=(task.support[0], task.labels[0]),
            pictures=pictures,
        )

    def _repr_html_(self) -> str:
        from handful.report.table import batch_table, result_table

        method = str(self.made_by["method"])
        if self.outlier_scores.ndim == 2:
            return batch_table(self, method, self.outlier_share_interval)
        return result_table(self, method, self.outlier_share_interval, self._groups_at_hand())

    def _groups_at_hand(self) -> Groups | None:
        """The groups, if somebody has asked for them already or if finding them is quick."""
        is_quick = not self.task.is_large and self.likely_unknown.sum() <= MAX_GROUPED_UNASKED
        return self.groups if is_quick or "groups" in self.__dict__ else None

    def __getitem__(self, i: int) -> Result:
        """The i-th task of a batch."""
        if self.outlier_scores.ndim == 1:
            raise TypeError("this is the result of one task; only a batch of tasks can be indexed")
        if not -len(self) <= index(i) < len(self):
            raise IndexError(f"there is no task {i}: there are {len(self)}, counted from 0")
        i = index(i) % len(self)
        result = Result(self._solution.of_task(i), self.task[i], self.made_by)
        result.threshold, result.min_confidence = _pick(self.threshold, i), _pick(self.min_confidence, i)
        return result

    def __repr__(self) -> str:
        unknown = to_numpy(self.unknown)
        tasks = f"{len(unknown)} tasks of " if unknown.ndim == 2 else ""
        share = f", {unknown.mean():.0%} unknown" if unknown.size else ""
        return (
            f"<Result: {tasks}{unknown.shape[-1]} items{share}, "
            f"{self.classes.shape[-1]} classes, by {self.made_by['method']}>"
        )

    def _one_task(self, what: str = "groups") -> Task:
        if self.outlier_scores.ndim == 2:
            verb = "are" if what.endswith("s") else "is"
            raise ValueError(f"{what} {verb} of one task: take result[i] of a batch first")
        return self.task


def _pick(value: Any, i: int) -> Any:
    return value[i] if np.ndim(value) else value
