"""The instructions of pickle protocols 0 to 5. Those that no pickle of arrays needs are refused by name."""

from __future__ import annotations

import codecs
import struct
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.utils.text import shortened
from handful.utils.unpickling.budget import MAX_INTEGER_BYTES, MAX_OPEN_MARKS, Damaged, Refused
from handful.utils.unpickling.words import Name, Unfinished

if TYPE_CHECKING:
    from handful.utils.unpickling.machine import Machine

STOP = ord(".")
MAX_NUMBER_RUN = 1_024  # numbers decoded at once; Python writes lists in batches of 1,000
# Bytes that an object takes, with its place in its container: `sys.getsizeof`, rounded up.
LIST, DICT, SET, TUPLE, SLOT, PAIR, MEMBER, MEMO = 72, 80, 224, 56, 8, 100, 80, 100
REFUSED = {
    b"0": "POP", b"1": "POP_MARK", b"2": "DUP", b"i": "INST", b"o": "OBJ", b"P": "PERSID", b"\x82": "EXT1",
    b"\x83": "EXT2", b"\x84": "EXT4", b"\x92": "NEWOBJ_EX", b"\x97": "NEXT_BUFFER", b"\x98": "READONLY_BUFFER",
}  # fmt: skip


def _unknown(m: Machine) -> None:
    raise Damaged(f"it has no instruction at byte {m.at - 1:,}")


INSTRUCTIONS: list[Callable[[Machine], None]] = [_unknown] * 256


def _on(code: bytes, *arguments: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function for an instruction."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        INSTRUCTIONS[code[0]] = (lambda m: function(m, *arguments)) if arguments else function
        return function

    return register


# ---- numbers


def _numbers(code: bytes, kind: str) -> None:
    """Register numbers of one width. Long runs of them, such as labels in a list, are decoded by NumPy at once."""
    one = struct.Struct(kind)
    record = np.dtype([("code", "u1"), ("value", kind.replace("B", "u1"))])
    width, far = record.itemsize, 16 * record.itemsize

    def push(m: Machine) -> None:
        start = m.at - 1
        if start + far < len(m.buffer) and m.buffer[start + far] == code[0]:
            count = min(MAX_NUMBER_RUN, (len(m.buffer) - start) // width)
            rows = np.frombuffer(m.buffer, record, count, start)
            others = rows["code"] != code[0]
            count = int(others.argmax()) if others.any() else count
            m.stack += rows["value"][:count].tolist()
            m.at = start + count * width
        else:
            m.stack += one.unpack(m.take(width - 1))

    INSTRUCTIONS[code[0]] = push


for _code, _kind in ((b"K", "B"), (b"M", "<H"), (b"J", "<i"), (b"G", ">d")):
    _numbers(_code, _kind)


@_on(b"\x8a", 1)  # LONG1
@_on(b"\x8b", 4)  # LONG4
def _long(m: Machine, width: int) -> None:
    count = m.number(width)
    if count > MAX_INTEGER_BYTES:
        raise Refused(f"has an integer of {count:,} bytes: at most {MAX_INTEGER_BYTES} are read")
    m.stack.append(int.from_bytes(m.take(count), "little", signed=True))


@_on(b"I")
@_on(b"L")
def _integer_line(m: Machine) -> None:
    line = m.line(3 * MAX_INTEGER_BYTES).rstrip(b"L")
    m.stack.append(line == b"01" if line in (b"00", b"01") else int(line))


@_on(b"F")
def _float_line(m: Machine) -> None:
    m.stack.append(float(m.line()))


# ---- text and bytes; strings of Python 2 are bytes


@_on(b"U", 1)  # SHORT_BINSTRING
@_on(b"C", 1)  # SHORT_BINBYTES
@_on(b"T", 4)  # BINSTRING
@_on(b"B", 4)  # BINBYTES
@_on(b"\x8e", 8)  # BINBYTES8
@_on(b"\x96", 8)  # BYTEARRAY8, as bytes: nothing needs to change it
def _bytes(m: Machine, width: int) -> None:
    m.stack.append(m.take(m.number(width)))


@_on(b"\x8c", 1)  # SHORT_BINUNICODE
@_on(b"X", 4)  # BINUNICODE
@_on(b"\x8d", 8)  # BINUNICODE8
def _text(m: Machine, width: int) -> None:
    m.stack.append(m.take(m.number(width)).decode("utf-8", "surrogatepass"))


@_on(b"V")
def _text_line(m: Machine) -> None:
    m.stack.append(m.line(len(m.buffer)).decode("raw-unicode-escape"))


@_on(b"S")
def _bytes_line(m: Machine) -> None:
    line = m.line(len(m.buffer)).strip()
    if len(line) < 2 or line[0] != line[-1] or line[:1] not in b"\"'":
        raise Damaged("it has a string without quotes")
    inner = line[1:-1]
    if b"\\" in inner:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a damaged escape
            inner = codecs.escape_decode(inner)[0]
    m.stack.append(inner)


# ---- constants and containers


def _constant(code: bytes, value: Any) -> None:
    INSTRUCTIONS[code[0]] = lambda m: m.stack.append(value)


for _code, _value in ((b"N", None), (b"\x88", True), (b"\x89", False), (b")", ())):
    _constant(_code, _value)


@_on(b"(")
def _mark(m: Machine) -> None:
    if len(m.outer) >= MAX_OPEN_MARKS:
        raise Refused(f"has more than {MAX_OPEN_MARKS:,} containers within containers")
    m.outer.append(m.stack)
    m.stack = []


@_on(b"]", list, LIST)
@_on(b"}", dict, DICT)
@_on(b"\x8f", set, SET)
def _empty(m: Machine, kind: type, cost: int) -> None:
    m.budget.take(cost)
    m.stack.append(kind())


@_on(b"t")
def _tuple(m: Machine) -> None:
    items = m.since_mark()
    m.budget.take(TUPLE + SLOT * len(items))
    m.stack.append(tuple(items))


@_on(b"\x85", 1)
@_on(b"\x86", 2)
@_on(b"\x87", 3)
def _short_tuple(m: Machine, count: int) -> None:
    if len(m.stack) < count:
        raise Damaged("it takes more than it has made")
    m.budget.take(TUPLE + SLOT * count)
    m.stack[-count:] = [tuple(m.stack[-count:])]


@_on(b"l")
def _list(m: Machine) -> None:
    items = m.since_mark()
    m.budget.take(LIST + SLOT * len(items))
    m.stack.append(items)


@_on(b"d")
def _dict(m: Machine) -> None:
    items = m.since_mark()
    _empty(m, dict, DICT)
    _set_items(m, items)


@_on(b"\x91")
def _frozenset(m: Machine) -> None:
    items = m.since_mark()
    _empty(m, set, SET)
    _add_items(m, items)
    m.stack.append(frozenset(m.stack.pop()))


@_on(b"a")
def _append(m: Machine) -> None:
    item = m.stack.pop()
    _top(m, list).append(item)


@_on(b"e")
def _appends(m: Machine) -> None:
    items = m.since_mark()
    _top(m, list).extend(items)


@_on(b"s")
def _set_item(m: Machine) -> None:
    value, key = m.stack.pop(), m.stack.pop()
    _set_items(m, [key, value])


@_on(b"u")
def _set_items_since_mark(m: Machine) -> None:
    _set_items(m, m.since_mark())


@_on(b"\x90")
def _add_items_since_mark(m: Machine) -> None:
    _add_items(m, m.since_mark())


def _set_items(m: Machine, items: list[Any]) -> None:
    keys, values = items[::2], items[1::2]
    m.budget.take(PAIR * len(keys))
    m.budget.check_keys(keys)
    _top(m, dict).update(zip(keys, values, strict=True))


def _add_items(m: Machine, items: list[Any]) -> None:
    m.budget.take(MEMBER * len(items))
    m.budget.check_keys(items)
    _top(m, set).update(items)


def _top(m: Machine, kind: type) -> Any:
    if type(m.stack[-1]) is not kind:
        raise Damaged(f"it fills something that is not a {kind.__name__}")
    return m.stack[-1]


# ---- the memo


def _put(m: Machine, place: int) -> None:
    value = m.stack[-1]
    if isinstance(value, Unfinished):
        value.places.append(place)
    m.budget.take(MEMO)
    m.memo[place] = value


@_on(b"p")
def _put_line(m: Machine) -> None:
    _put(m, int(m.line(20)))


@_on(b"q", 1)
@_on(b"r", 4)
def _put_number(m: Machine, width: int) -> None:
    _put(m, m.number(width))


@_on(b"\x94")
def _memoize(m: Machine) -> None:
    _put(m, len(m.memo))


@_on(b"g")
def _get_line(m: Machine) -> None:
    m.stack.append(m.memo[int(m.line(20))])


@_on(b"h", 1)
@_on(b"j", 4)
def _get_number(m: Machine, width: int) -> None:
    m.stack.append(m.memo[m.number(width)])


# ---- names and calls


def _push_name(m: Machine, text: str) -> None:
    name = m.words.get(text)
    if name is None:
        raise Refused(
            f"asks for {shortened(text)}, which is not an array or a plain container and could run anything: it was "
            "not called and nothing was read",
            advise=True,
        )
    m.stack.append(name)


@_on(b"c")
def _global(m: Machine) -> None:
    _push_name(m, f"{m.line().decode('utf-8', 'replace')}.{m.line().decode('utf-8', 'replace')}")


@_on(b"\x93")
def _stack_global(m: Machine) -> None:
    name, module = m.stack.pop(), m.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise Damaged("it asks for a name that is not text")
    _push_name(m, f"{module[:500]}.{name[:500]}")


@_on(b"R")
@_on(b"\x81")  # NEWOBJ
def _call(m: Machine) -> None:
    arguments, name = m.stack.pop(), m.stack.pop()
    if not isinstance(name, Name) or type(arguments) is not tuple:
        raise Refused("calls something that is not a function: nothing was called and nothing was read")
    if name.call is None:
        raise Refused(f"calls {name.text}, which makes no array: it was not called and nothing was read")
    value = name.call(m.budget, *arguments)
    m.unfinished += isinstance(value, Unfinished)
    m.stack.append(value)


@_on(b"b")
def _build(m: Machine) -> None:
    state, value = m.stack.pop(), m.stack.pop()
    if isinstance(value, Unfinished):
        finished = value.finished(m.budget, state)
        m.unfinished -= 1
        for place in value.places:
            if m.memo[place] is value:
                m.memo[place] = finished
        m.stack.append(finished)
    elif type(value) is dict and type(state) is dict:
        m.stack.append(value)  # attributes of a state dict or of a namespace are not kept
    else:
        raise Refused(f"tries to change a {type(value).__name__}: it was not changed and nothing was read")


@_on(b"Q")
def _storage(m: Machine) -> None:
    if m.storage_of is None:
        raise Refused("points to data outside itself: nothing was read")
    m.stack.append(m.storage_of(m.stack.pop()))


# ---- the frame


@_on(b"\x80")
def _protocol(m: Machine) -> None:
    if m.number(1) > 5:
        raise Damaged("its protocol is above 5")


@_on(b"\x95")
def _frame(m: Machine) -> None:
    if m.number(8) > len(m.buffer) - m.at:
        raise Damaged("it ends early")


def _refuse(m: Machine, name: str) -> None:
    raise Refused(f"has the instruction {name}, which no pickle of arrays needs: nothing was read")


for _code, _name in REFUSED.items():
    _on(_code, _name)(_refuse)
