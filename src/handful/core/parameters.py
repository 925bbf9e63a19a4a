"""What values a parameter may take, declared beside the method that has it and checked in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Annotated, Any, get_args

import numpy as np

from handful.utils.text import shortened


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What values a parameter may take; as text, it says so. A rule may also allow None."""

    optional: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether the parameter may have this value."""
        return self.optional if value is None else self._accepts(value)

    def __str__(self) -> str:
        return self._text() + (", or None" if self.optional else "")

    def _accepts(self, value: Any) -> bool:
        raise NotImplementedError

    def _text(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class Number(Rule):
    """A number between `low` and `high`, both excluded unless `closed`; `each_task`: or one for each task."""

    low: float = -np.inf
    high: float = np.inf
    closed: bool = False
    whole: bool = False
    each_task: bool = False

    def _accepts(self, value: Any) -> bool:
        if self.each_task and np.ndim(value) == 1 and np.asarray(value).dtype.kind in "iuf":
            return all(self.accepts(v) for v in np.asarray(value).tolist())
        if isinstance(value, bool | np.bool_) or not isinstance(value, Integral if self.whole else Real):
            return False
        number: Any = value  # `Real` says nothing of comparing
        inside = self.low <= number <= self.high if self.closed else self.low < number < self.high
        return bool(inside and -np.inf < number < np.inf)

    def _text(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        if not np.isinf(self.high):
            return f"{kind} between {self.low:g} and {self.high:g}" + ("" if self.closed else ", both excluded")
        return kind if np.isinf(self.low) else f"{kind} {'from' if self.closed else 'above'} {self.low:g}"

    def __str__(self) -> str:
        return super().__str__() + (", or one for each task" if self.each_task else "")


AUTO = "auto"  # of a parameter that can be found from the task


def is_auto(value: Any) -> bool:
    """Whether a value is "auto"."""
    return isinstance(value, str) and value == AUTO


@dataclass(frozen=True)
class OrAuto(Number):
    """Such a number, or "auto"."""

    def _accepts(self, value: Any) -> bool:
        return is_auto(value) or super()._accepts(value)

    def __str__(self) -> str:
        return f'"{AUTO}", or {super().__str__()}'


SHARE = OrAuto(0, 1, each_task=True)  # of outliers
SHARE_MARGIN = 1e-6  # far less than an item of any pile


def inner_share(share: Any) -> Any:
    """A share that was given, moved to `SHARE_MARGIN` from 0 or 1 if it is nearer: float32 cannot tell it from them."""
    return np.clip(share, SHARE_MARGIN, 1 - SHARE_MARGIN)


@dataclass(frozen=True)
class OneOf(Rule):
    """One of a few values."""

    values: tuple[Any, ...]

    def _accepts(self, value: Any) -> bool:
        return any(value is v or (isinstance(v, str) and isinstance(value, str) and value == v) for v in self.values)

    def _text(self) -> str:
        return "one of " + ", ".join(map(repr, self.values))


@dataclass(frozen=True)
class Limit(Number):
    """Such a number, or infinity, which no score is above."""

    def _accepts(self, value: Any) -> bool:
        return (isinstance(value, float) and value == np.inf) or super()._accepts(value)


@dataclass(frozen=True)
class Interval(Number):
    """Two such numbers, the first not above the second."""

    def _accepts(self, value: Any) -> bool:
        pair = isinstance(value, list | tuple) and len(value) == 2 and all(map(super()._accepts, value))
        return bool(pair and value[0] <= value[1])

    def _text(self) -> str:
        return f"a pair in ascending order, each {super()._text()}"


@dataclass(frozen=True)
class Text(Rule):
    """A text, or a list of texts if `many`."""

    many: bool = False

    def _accepts(self, value: Any) -> bool:
        return isinstance(value, list if self.many else str) and all(isinstance(v, str) for v in value)

    def _text(self) -> str:
        return "a list of texts" if self.many else "a text"


@dataclass(frozen=True)
class Object(Rule):
    """An object of JSON: names with values, which `rules` tell of, if there are any; then no other names."""

    rules: Mapping[str, Rule] | None = None

    def _accepts(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        return self.rules is None or all(k in self.rules and self.rules[k].accepts(v) for k, v in value.items())

    def _text(self) -> str:
        rules = " and ".join(f"{name}: {rule}" for name, rule in (self.rules or {}).items())
        return f"an object with {rules}" if rules else "an object"


@dataclass(frozen=True)
class SomeOf(Rule):
    """A non-empty tuple or list of some of these names."""

    values: tuple[str, ...]

    def _accepts(self, value: Any) -> bool:
        return isinstance(value, tuple | list) and len(value) > 0 and all(v in self.values for v in value)

    def _text(self) -> str:
        return "a tuple with some of " + ", ".join(map(repr, self.values))


# Types of parameters that carry their rule
Positive = Annotated[float, Number(0)]
NotNegative = Annotated[float, Number(0, closed=True)]
Part = Annotated[float, Number(0, 1, closed=True)]
Whole = Annotated[int, Number(0, closed=True, whole=True)]
Flag = Annotated[bool, OneOf((True, False))]
Count = Annotated[int, Number(1, closed=True, whole=True)]
OutlierShare = Annotated[Any, SHARE]


def rules_of(function: Callable[..., Any]) -> dict[str, Rule]:
    """The rules in the annotations of keyword-only parameters; where None is the default, it is allowed."""
    rules: dict[str, Rule] = {}
    for parameter in inspect.signature(function).parameters.values():
        annotation = parameter.annotation if parameter.kind is parameter.KEYWORD_ONLY else None
        if isinstance(annotation, str):  # other annotations may name what only a type checker imports
            annotation = eval(annotation, getattr(function, "__globals__", {}))
        types = (annotation, *get_args(annotation))  # of `float | None` too
        rule = next((rule for one in types for rule in getattr(one, "__metadata__", ())), None)
        if rule is not None:
            rules[parameter.name] = replace(rule, optional=True) if parameter.default is None else rule
    return rules


def check(parameters: Mapping[str, Any], rules: Mapping[str, Rule], owner: str) -> None:
    """Raise on the first parameter whose value its rule refuses."""
    for name, value in parameters.items():
        if name in rules and not rules[name].accepts(value):
            raise ValueError(f"{name} of {owner} must be {rules[name]}, got {shortened(repr(value))}")
