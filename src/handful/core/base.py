"""What a backbone's base classes leave behind for tasks of other classes: one small file beside the backbone.

    mean        the mean feature, which "base" preparation subtracts
    heads       arrays learned on tasks drawn from the base classes, by the method's name: "feat", "peeler", ...;
                "conformal" is a sample of items with their classes
    negatives   a sample of base features: items that are surely of no class of a task

`handful.training.heads.learn_base` makes one from features, as `handful base` does; methods that need one take it, or
the path of its file, as `base`. The file is safetensors with a JSON header: arrays and plain data, nothing to unpickle.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import device

from handful.core.arrays import Array, as_like, to_numpy
from handful.core.parameters import Number, Object, Rule, Text, check
from handful.core.prepare import replay
from handful.utils.files import write_whole
from handful.utils.tensor_file import check_arrays, read_tensors
from handful.utils.text import shortened

FORMAT = 1  # raised when a file written now could not be read by an older handful
KEY = "handful.base"  # of the header
NEGATIVES = "negatives"
OF_TASK = ("task", "qr", "scale")  # steps of preparation that learn from a task
HEADER: dict[str, Rule] = {
    "format": Number(1, closed=True, whole=True), "about": Object(), "arrays": Text(many=True)
}  # fmt: skip
ABOUT: dict[str, Rule] = {"name": Text(), "classes": Number(0, closed=True, whole=True)}  # the rest is for people
HEADS = {  # axes of the arrays of heads: D features, H hidden units, E embedded features, rank R, M samples or items
    "feat": {"attention": "D D", "output": "D D", "gain": "D", "shift": "D", "log_temperature": "1"},
    "peeler": {"inner": "D H", "outer": "H D", "log_precision": "D"},
    "flowr": {
        "embedding": "D E", "prior_mean": "E", "log_between": "E", "log_within": "E", "log_alpha": "1",
        "log_temperature": "1",
    },
    "meta_bce": {
        "down": "D R", "up": "R D", "inner": "D H", "outer": "H D", "log_scale": "1", "threshold": "2",
        "rejection": "1",
    },
    "ood_maml": {
        "down": "D R", "up": "R D", "weight": "D", "bias": "1", "fakes": "M D", "log_fake_steps": "M", "log_rates": "2",
        "rejection": "1",
    },
    "frob": {
        "offsets": "M D", "log_radius": "1", "log_tau": "1", "log_lambda": "1", "log_cosine": "1", "threshold": "1",
        "log_rate_prototypes": "1", "log_rate_rejection": "1", "log_rate_bias": "1",
    },
    "conformal": {"items": "M D", "codes": "M"},
}  # fmt: skip
ITEMS = {NEGATIVES: NEGATIVES, "conformal": "items"}  # arrays of items as they come, by the part that they are of
HOW = "`handful base FEATURES -o base.safetensors` makes one from features of the backbone's training classes"


@dataclass(frozen=True, eq=False, repr=False)  # arrays have no single truth: == would raise
class Base:
    """What the base classes of a backbone leave behind for tasks of other classes. `handful base` makes one.

    Parameters
    ----------
    mean : array [D]
        The mean feature.
    heads : dict of dict of arrays
        Arrays that were learned on tasks drawn from the base classes, by the name of the method.
    negatives : array [M, D], optional
        A sample of features of base classes: items that surely belong to no class of a task.
    about : dict
        What it was made of, such as {"name": "birds", "classes": 64}.

    Examples
    --------
    >>> Base(np.zeros(3), about={"name": "birds", "classes": 64})
    <Base birds: 64 classes, 3 features, no heads, no negatives, 524de2664f43f810>
    """

    mean: np.ndarray
    heads: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    negatives: np.ndarray | None = None
    about: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, array in self.arrays.items():
            if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
                raise ValueError(f"{name} of a base must be finite numbers")
        check({"about": self.about}, HEADER, "a base")
        check(self.about, ABOUT, "a base")
        mean = np.ascontiguousarray(self.mean, np.float32)
        if mean.ndim != 1 or not mean.size:
            raise ValueError(f"the mean of a base has shape {mean.shape}: a row of numbers is needed, one a feature")
        heads = {
            head: {name: np.ascontiguousarray(value, np.float32) for name, value in arrays.items()}
            for head, arrays in self.heads.items()
        }
        for head, arrays in heads.items():
            try:
                check_arrays(arrays, HEADS.get(head, {}), {"D": mean.size})
            except KeyError as missing:
                raise ValueError(f"head {head!r} of a base has no array {missing}") from None
            except ValueError as error:
                raise ValueError(f"head {head!r} of a base: {error}") from None
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "heads", heads)
        if self.negatives is not None:
            negatives = np.ascontiguousarray(self.negatives, np.float32)
            if negatives.ndim != 2 or negatives.shape[1] != mean.size:
                shape = negatives.shape
                raise ValueError(f"the negatives of a base have shape {shape}: [items, {mean.size}] is needed")
            object.__setattr__(self, "negatives", negatives)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All of them as the file names them: mean, negatives, head/feat/output, ..."""
        arrays = {f"head/{head}/{name}": np.asarray(v) for head, of in self.heads.items() for name, v in of.items()}
        if self.negatives is not None:
            arrays[NEGATIVES] = np.asarray(self.negatives)
        return {"mean": np.asarray(self.mean), **arrays}

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], about: dict[str, Any]) -> Base:
        """The base that has these arrays.

        Parameters
        ----------
        arrays : mapping of str to array
            As in the attribute `arrays`: "mean", "negatives", "head/NAME/ARRAY".
        """
        heads: dict[str, dict[str, np.ndarray]] = {}
        for name, array in arrays.items():
            if name.startswith("head/"):
                head, slash, which = name.removeprefix("head/").partition("/")
                if not (head and slash and which):
                    raise ValueError(f"a base has an array {shortened(name)!r}: head/NAME/ARRAY is needed")
                heads.setdefault(head, {})[which] = array
        return cls(arrays["mean"], heads, arrays.get(NEGATIVES), about)

    @property
    def dimension(self) -> int:
        """How many features the backbone gives."""
        return self.mean.size

    @cached_property
    def mark(self) -> str:
        """A digest of the arrays: what decides a result, wherever the file lies and whenever it was made."""
        digest = blake2b(digest_size=16)
        for name, array in sorted(self.arrays.items()):
            digest.update(f"{name} {array.shape};".encode())
            digest.update(array.data)
        return digest.hexdigest()

    def __repr__(self) -> str:
        """Holds the mark, as keys of stored results are made of it."""
        classes = f"{self.about['classes']} classes, " if "classes" in self.about else ""
        heads = " and ".join(sorted(self.heads)) or "no heads"  # a file has them in its own order
        count = "no" if self.negatives is None else len(self.negatives)
        name = self.about.get("name", "?")
        return f"<Base {name}: {classes}{self.dimension} features, {heads}, {count} negatives, {self.mark[:16]}>"

    def only(self, *parts: str) -> Base:
        """A base with some of the heads only.

        Parameters
        ----------
        *parts : str
            The heads to keep; "negatives" keeps the negatives too.
        """
        heads = {head: arrays for head, arrays in self.heads.items() if head in parts}
        return replace(self, heads=heads, negatives=self.negatives if NEGATIVES in parts else None)

    def part(self, name: str) -> dict[str, np.ndarray]:
        """The arrays of one part. Raises ValueError if the base does not have it.

        Parameters
        ----------
        name : str
            The name of a head, or "negatives".
        """
        if name == NEGATIVES and self.negatives is not None:
            return {NEGATIVES: self.negatives}
        if name in self.heads:
            return self.heads[name]
        what = "negatives" if name == NEGATIVES else f"head {name!r}"
        there = ", ".join([*self.heads, *([NEGATIVES] if self.negatives is not None else [])]) or "the mean alone"
        raise ValueError(f"the base {self.about.get('name', '')!r} has no {what}, it has {there}: {HOW}")

    def save(self, path: str | Path) -> Path:
        """Write the base to a file. A file that exists is replaced whole or not at all.

        Parameters
        ----------
        path : str or Path
            The file, MODEL.base.safetensors beside MODEL.onnx.
        """
        from safetensors.numpy import save

        path = Path(path)
        arrays = self.arrays
        header = {"format": FORMAT, "about": self.about, "arrays": sorted(arrays)}
        try:
            write_whole(path, save(arrays, metadata={KEY: json.dumps(header)}))
        except OSError as error:  # its own message would name the temporary file
            raise OSError(error.errno, f"the base was not saved: {error.strerror}", str(path)) from None
        return path


def read_base(source: Base | str | Path) -> Base:
    """A base, or the one in that file, which is read once for as long as it stays as it is."""
    if isinstance(source, Base):
        return source
    if not isinstance(source, str | os.PathLike):
        raise ValueError(
            f"base is a {type(source).__name__}: give a handful.methods.Base or the path of its file; {HOW}"
        )
    path = Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"there is no base file {str(path)!r}: {HOW}")
    stat = path.stat()
    return _read(str(path.resolve()), stat.st_mtime_ns, stat.st_size)


def is_base(path: str | Path) -> bool:
    """Whether a file is a base, by its header, and not a file of features."""
    from safetensors import SafetensorError, safe_open

    if Path(path).suffix.lower() != ".safetensors" or not Path(path).is_file():
        return False
    try:
        with safe_open(path, framework="np") as file:
            return KEY in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False  # whoever reads it as features says what is wrong with it


@lru_cache(maxsize=4)
def _read(path: str, changed: int, size: int) -> Base:
    header, arrays = read_tensors(path, KEY, f"not a base: {HOW}")
    try:
        check({"format": header["format"]}, HEADER, "the base")
        if header["format"] > FORMAT:
            raise ValueError(
                f"it is a base in format {header['format']}, and this handful reads up to format {FORMAT}: "
                "upgrade with pip install -U handful"
            )
        check({"arrays": header["arrays"]}, HEADER, "the base")
        if missing := [name for name in (*header["arrays"], "mean") if name not in arrays]:
            raise KeyError(missing[0])
        return Base.of(arrays, header["about"])
    except KeyError as error:
        raise ValueError(f"{path!r} is incomplete: {shortened(str(error))} is missing from it") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path!r} is damaged: {shortened(str(error), 400)}") from None


class BaseArrays(Mapping[str, Any]):
    """The arrays of a head, or the negatives, of the type of `like`; items are prepared as the task is."""

    def __init__(self, base: Base | None, name: str, state: Mapping[str, Array], like: Array) -> None:
        self.base, self.name, self.like = base, name, like
        steps = {key: array for key, array in state.items() if key.startswith("prepare.")}
        self._is_of_task = any(key.split(".")[2] in OF_TASK for key in steps)
        # what prepares items: of the first task alone, unless tasks differ
        self._steps = steps if self._is_of_task else {key: array[:1] for key, array in steps.items()}

    def __getitem__(self, key: str) -> Array:
        value = as_like(self._arrays[key], self.like)
        return replay(self._steps, value[None]) if ITEMS.get(self.name) == key else value

    @property
    def mark(self) -> str | None:
        """A digest of all that decides the arrays, to store what is computed from them; None if a task decides too."""
        if self.base is None or self._is_of_task:
            return None
        digest = blake2b(f"{self.base.mark} {type(self.like)} {self.like.dtype} {device(self.like)}".encode())
        for name, array in self._steps.items():
            digest.update(name.encode() + np.ascontiguousarray(to_numpy(array)).tobytes())
        return digest.hexdigest()

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    @property
    def _arrays(self) -> dict[str, np.ndarray]:
        assert self.base is not None
        return self.base.part(self.name)
