"""What values a parameter may take, declared beside the method that has it and checked in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Protocol

import numpy as np

from handful.utils.text import shortened


class Rule(Protocol):
    """What values a parameter may take; as text, it says so."""

    def accepts(self, value: Any) -> bool:
        """Whether the parameter may have this value."""
        ...

    def __str__(self) -> str: ...


@dataclass(frozen=True)
class Number:
    """A number between `low` and `high`, both excluded unless `closed`; `each_task`: or one for each task."""

    low: float = -np.inf
    high: float = np.inf
    closed: bool = False
    whole: bool = False
    optional: bool = False
    each_task: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether the parameter may have this value."""
        if value is None:
            return self.optional
        if self.each_task and np.ndim(value) == 1 and np.asarray(value).dtype.kind in "iuf":
            return all(self.accepts(v) for v in np.asarray(value).tolist())
        if isinstance(value, bool | np.bool_) or not isinstance(value, Integral if self.whole else Real):
            return False
        number: Any = value  # `Real` says nothing of comparing
        inside = self.low <= number <= self.high if self.closed else self.low < number < self.high
        return bool(inside and -np.inf < number < np.inf)

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        if np.isinf(self.high):
            text = kind if np.isinf(self.low) else f"{kind} {'from' if self.closed else 'above'} {self.low:g}"
        else:
            text = f"{kind} between {self.low:g} and {self.high:g}" + ("" if self.closed else ", both excluded")
        return text + (", or None" if self.optional else "") + (", or one for each task" if self.each_task else "")


AUTO = "auto"  # of a parameter that can be found from the task


def is_auto(value: Any) -> bool:
    """Whether a value is "auto"."""
    return isinstance(value, str) and value == AUTO


@dataclass(frozen=True)
class OrAuto(Number):
    """Such a number, or "auto"."""

    def accepts(self, value: Any) -> bool:
        """Whether the parameter may have this value."""
        return is_auto(value) or super().accepts(value)

    def __str__(self) -> str:
        return f'"{AUTO}", or {super().__str__()}'


SHARE = OrAuto(0, 1, each_task=True)  # of outliers
SHARE_MARGIN = 1e-6  # far less than an item of any pile


def inner_share(share: Any) -> Any:
    """A share that was given, moved to `SHARE_MARGIN` from 0 or 1 if it is nearer: float32 cannot tell it from them."""
    return np.clip(share, SHARE_MARGIN, 1 - SHARE_MARGIN)


@dataclass(frozen=True)
class OneOf:
    """One of a few values."""

    values: tuple[Any, ...]

    def accepts(self, value: Any) -> bool:
        """Whether the parameter may have this value."""
        return any(value is v or (isinstance(v, str) and isinstance(value, str) and value == v) for v in self.values)

    def __str__(self) -> str:
        return "one of " + ", ".join(map(repr, self.values))


@dataclass(frozen=True)
class Limit(Number):
    """Such a number, or infinity, which no score is above."""

    def accepts(self, value: Any) -> bool:
        """Whether the parameter may have this value."""
        return (isinstance(value, float) and value == np.inf) or super().accepts(value)


@dataclass(frozen=True)
class Interval(Number):
    """Two such numbers, the first not above the second."""

    def accepts(self, value: Any) -> bool:
        """Whether the parameter may have this value."""
        if value is None:
            return self.optional
        pair = isinstance(value, list | tuple) and len(value) == 2 and all(map(super().accepts, value))
        return bool(pair and value[0] <= value[1])

    def __str__(self) -> str:
        return f"a pair in ascending order, each {super().__str__()}"


@dataclass(frozen=True)
class Text:
    """A text, or a list of texts if `many`."""

    many: bool = False
    optional: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether the parameter may have this value."""
        if value is None:
            return self.optional
        return (
            isinstance(value, list) and all(isinstance(v, str) for v in value) if self.many else isinstance(value, str)
        )

    def __str__(self) -> str:
        return ("a list of texts" if self.many else "a text") + (", or None" if self.optional else "")


@dataclass(frozen=True)
class Object:
    """An object of JSON: names with values, which `rules` tell of, if there are any; then no other names."""

    rules: Mapping[str, Rule] | None = None
    optional: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether the parameter may have this value."""
        if value is None:
            return self.optional
        if not isinstance(value, dict):
            return False
        return self.rules is None or all(k in self.rules and self.rules[k].accepts(v) for k, v in value.items())

    def __str__(self) -> str:
        if self.rules is None:
            return "an object"
        return "an object with " + " and ".join(f"{name}: {rule}" for name, rule in self.rules.items())


@dataclass(frozen=True)
class SomeOf:
    """A non-empty tuple or list of some of these names."""

    values: tuple[str, ...]

    def accepts(self, value: Any) -> bool:
        """Whether the parameter may have this value."""
        return isinstance(value, tuple | list) and len(value) > 0 and all(v in self.values for v in value)

    def __str__(self) -> str:
        return "a tuple with some of " + ", ".join(map(repr, self.values))


def check(parameters: Mapping[str, Any], rules: Mapping[str, Rule], owner: str) -> None:
    """Raise on the first parameter whose value its rule refuses."""
    for name, value in parameters.items():
        if name in rules and not rules[name].accepts(value):
            raise ValueError(f"{name} of {owner} must be {rules[name]}, got {shortened(repr(value))}")
