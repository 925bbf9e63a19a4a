"""Thousands of damaged pickles and torch files, read in forked processes that are limited, measured and watched.

    python tests/fuzz_unpickling.py --count 100000 --seed 0

Valid files of every kind are made by code, without torch, and changed: bits, numbers, instructions, pieces. Whatever
comes of it, reading ends in seconds with content or a ValueError, in bounded memory, and nothing is imported, opened,
compiled or started.
"""

import argparse
import io
import json
import os
import pickle
import pickletools
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from handful.backbones.state_dict import read_state_dict
from handful.features import read
from handful.utils.unpickling import load_plain, load_torch

MAX_SECONDS = 2.0  # of processor time for one file
MAX_BYTES = 2**29  # that reading may add to the memory of a process
MAX_MESSAGE = 500  # characters, without the path
BATCH = 1_000  # files for one process
MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
NUMBERS = [0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1]
CODES = [ord(opcode.code) for opcode in pickletools.opcodes]
NAMES = [
    "numpy ndarray", "numpy dtype", "numpy._core.multiarray scalar", "numpy.core.multiarray _reconstruct",
    "numpy._core.numeric _frombuffer", "torch FloatStorage", "torch._utils _rebuild_tensor_v2", "builtins set",
    "torch.storage _load_from_bytes", "collections OrderedDict", "_codecs encode", "builtins frozenset", "os system",
    "builtins eval", "collections defaultdict", "argparse Namespace", "torch Size", "builtins getattr",
]  # fmt: skip
PLAIN = b"()]}\x8fN\x88t\x85\x86\x87ldaesu\x90\x91R\x81b\x93\x9402Q"  # instructions without an argument
WATCHED = (
    "import", "open", "exec", "compile", "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen",
    "socket", "ctypes", "marshal", "pickle.find_class", "shutil", "os.remove", "os.rename", "urllib.Request",
)  # fmt: skip


# ---- valid files


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def numbers(values) -> bytes:
    return b"(" + b"".join(map(number, values)) + b"t"


def storage(key: str, count: int, kind: str = "FloatStorage", view: bytes = b"N") -> bytes:
    """What a torch pickle says of a storage; files in zip format have no `view`."""
    return (
        b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + text(key) + text("cpu") + number(count) + view + b"tQ"
    )


def tensor(said: bytes, shape=(2, 3), strides=(3, 1), offset: int = 0) -> bytes:
    arguments = b"(" + said + number(offset) + numbers(shape) + numbers(strides) + b"\x89}t"
    return b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"R"


def dictionary(items: dict[str, bytes]) -> bytes:
    return b"\x80\x02}(" + b"".join(text(key) + value for key, value in items.items()) + b"u."


def old_format(state: bytes, keys=("0",), storages: bytes | None = None, little_endian: bool = True) -> bytes:
    """A file of torch's old serialisation around the pickle of its content; by default with one storage of 6 floats."""
    system = {"protocol_version": PROTOCOL, "little_endian": little_endian}
    head = b"".join(pickle.dumps(value, 2) for value in (MAGIC, PROTOCOL, system))
    return head + state + pickle.dumps(list(keys), 2) + (floats(range(6)) if storages is None else storages)


def floats(values) -> bytes:
    return struct.pack("<q", len(values)) + np.asarray(values, "<f4").tobytes()


def zip_format(content: bytes, storages=None, compression: int = zipfile.ZIP_STORED, order: bytes = b"little") -> bytes:
    """A file of torch's zip format around the pickle of its content."""
    with zipfile.ZipFile(file := io.BytesIO(), "w", compression) as archive:
        archive.writestr("a/data.pkl", content)
        archive.writestr("a/byteorder", order)
        for key, data in (storages or {"0": np.arange(6, dtype="<f4").tobytes()}).items():
            archive.writestr(f"a/data/{key}", data)
    return file.getvalue()


def loaded(stored: bytes) -> bytes:
    """How pickle writes a storage: the file that torch makes of it, and how to load that."""
    return b"ctorch.storage\n_load_from_bytes\nB" + struct.pack("<I", len(stored)) + stored + b"\x85R"


def in_pickle(stored: bytes) -> bytes:
    """{1: tensor [2, 3]} around the file of its storage."""
    return b"\x80\x03}K\x01" + tensor(loaded(stored)) + b"s."


PYTHON_2 = (
    b"\x80\x02}U\x03hencnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    b"(K\x01K\x01K\x02\x86cnumpy\ndtype\nU\x02f4K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
    b"K\x00tb\x89U\x08" + np.array([[1, 2]], "<f4").tobytes() + b"tbs."
)


@dataclass
class Valid:
    """A file, in `around` another if that is given; its instructions begin at `starts`."""

    content: bytes
    torch: bool = False
    around: object = bytes
    starts: list[int] = field(default_factory=list)

    def __post_init__(self):
        source = io.BytesIO(self.content)
        try:
            while True:
                start = source.tell()
                self.starts += [start + at for _, _, at in pickletools.genops(source)]
        except (ValueError, IndexError, KeyError):  # the storages, which are no instructions
            pass

    @property
    def whole(self) -> bytes:
        return self.around(self.content)


def corpus() -> list[Valid]:
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    contents = [
        {"hen": rows, "owl": rows[:2] + 1},
        {"hen": list(rows), "owl": [rows.tolist()[0]], b"tit": np.asfortranarray(rows)},
        {0: rows.astype(">f8"), 1: rows.astype("u1"), 700: rows > 3, -1: rows.astype("f2")},
        {"names": np.array(["a", "bc"]), "bytes": np.array([b"x"]), "one": np.float64(2), "word": np.str_("hen")},
        {"data": [1, 2**40, -3, 1.5, None, True, "x\n", b"\x00y", (), (1,), (1, 2), (1, 2, 3, 4)], ("a", 1): [[], {}]},
        {"set": {1, 2}, "frozen": frozenset("ab"), "long": [*range(400)], "floats": [0.5] * 50},
    ]
    files = [Valid(pickle.dumps(content, protocol)) for content in contents for protocol in range(6)]
    files.append(Valid(PYTHON_2))
    weights = dictionary({
        "w": tensor(storage("0", 6)), "v": tensor(storage("0", 6), (3,), (2,), 1), "n": tensor(storage("0", 6), (), ()),
    })  # fmt: skip
    ordered = b"\x80\x02ccollections\nOrderedDict\n)R(" + text("w") + tensor(storage("0", 6)) + b"u"
    ordered += b"}" + text("_metadata") + b"}sb."
    files += [Valid(old_format(weights), True), Valid(old_format(ordered), True)]
    files.append(Valid(dictionary({"w": tensor(storage("0", 6, view=b""))}), True, zip_format))
    files.append(Valid(old_format(b"\x80\x02" + storage("0", 6) + b"."), False, in_pickle))
    files.append(Valid(in_pickle(old_format(b"\x80\x02" + storage("0", 6) + b"."))))
    return files


# ---- changes


def changed(rng: random.Random, files: list[Valid]) -> tuple[bytes, bool]:
    """One damaged file, and whether it is to be read as one of torch."""
    if rng.random() < 0.1:
        return soup(rng), False
    file = rng.choice(files)
    data, starts = bytearray(file.content), file.starts
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        at = rng.randrange(len(data)) if data else 0
        step = rng.choice(starts)
        kind = rng.randrange(10)
        if kind == 0 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:  # another instruction
            data[step : step + 1] = bytes([rng.choice(CODES)])
        elif kind == 2:  # a number, of 1, 2, 4 or 8 bytes
            width = rng.choice((1, 2, 4, 8))
            data[step + 1 : step + 1 + width] = (rng.choice(NUMBERS) % 256**width).to_bytes(width, "little")
        elif kind == 3:
            other = rng.choice(files)
            first = rng.choice(other.starts)
            data[step:step] = other.content[first : first + rng.randrange(1, 200)]
        elif kind == 4:
            del data[at:]
        elif kind == 5:  # some instructions twice, or many times
            piece = data[step : step + rng.randrange(1, 60)]
            data[step:step] = piece * rng.choice((1, 1, 2, 50))
        elif kind == 6:
            del data[step : step + rng.randrange(1, 20)]
        elif kind == 7:
            data[step:step] = token(rng)
        elif kind == 8 and data:
            data[at] = rng.randrange(256)
        else:
            name = "\n".join(rng.choice(NAMES).split()).encode()
            data[step:step] = b"c" + name + b"\n"
    return file.around(bytes(data)), file.torch ^ (rng.random() < 0.03)


def token(rng: random.Random) -> bytes:
    """One instruction with its argument."""
    kind = rng.randrange(6)
    if kind == 0:
        return b"c" + "\n".join(rng.choice(NAMES).split()).encode() + b"\n"
    if kind == 1:
        return rng.choice([b"K", b"q", b"h"]) + bytes([rng.randrange(4)])
    if kind == 2:
        return text(rng.choice(["<", "O,<", "f4", "O", "latin1", "storage", "0", "cpu", "b1", "U3", "|V8", ""]))
    if kind == 3:
        return b"C" + bytes([8]) + struct.pack("<q", rng.choice([1, 2**40, 140_000_000_000_000]))
    if kind == 4:
        return rng.choice([b"J" + rng.randbytes(4), b"G" + rng.randbytes(8), b"\x8a\x02" + rng.randbytes(2)])
    return bytes([rng.choice(PLAIN)])


def soup(rng: random.Random) -> bytes:
    return b"\x80\x04" + b"".join(token(rng) for _ in range(rng.randrange(2, 80))) + b"."


# ---- watched reading


@dataclass
class Report:
    count: int = 0
    seconds: float = 0.0
    slowest: float = 0.0  # seconds of processor time
    slowest_file: str = ""
    added: int = 0  # bytes of memory, at most in one process
    outcomes: Counter = field(default_factory=Counter)
    imports: set = field(default_factory=set)
    events: set = field(default_factory=set)
    faults: list = field(default_factory=list)


def run(count: int, seed: int, folder: Path, keep: Path | None = None) -> Report:
    """Read `count` damaged files. Those with a fault are kept in `keep`."""
    report, started = Report(), time.perf_counter()
    for i, file in enumerate(corpus()):  # what our own program imports when it is needed
        path = folder / f"{i}.pkl"
        path.write_bytes(file.whole)
        _outcome(path, file.torch)
        path.unlink()
    for batch in range(0, count, BATCH):
        size = min(BATCH, count - batch)
        answer, path = folder / "answer.json", folder / "file.pkl"
        answer.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            try:
                _work(f"{seed}-{batch}", size, path, answer)
            finally:
                os._exit(70)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        report.count += size
        if code != 0 or not answer.exists():
            name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            report.faults.append(f"{name}: {_kept(path, keep)}")
            continue
        found = json.loads(answer.read_text())
        report.outcomes.update(found["outcomes"])
        report.imports.update(found["imports"])
        report.events.update(found["events"])
        report.faults += found["faults"]
        report.added = max(report.added, found["added"])
        if found["slowest"] > report.slowest:
            report.slowest, report.slowest_file = found["slowest"], f"{seed}-{batch}, file {found['slowest_at']}"
        if found["added"] > MAX_BYTES:
            report.faults.append(f"{found['added']:,} bytes more in batch {seed}-{batch}")
    report.seconds = time.perf_counter() - started
    return report


def _kept(path: Path, keep: Path | None) -> str:
    if keep is None:
        return f"{path.read_bytes()[:300]!r}"
    target = keep / f"fault-{time.time_ns()}.pkl"
    target.write_bytes(path.read_bytes())
    return str(target)


def _work(seed: str, count: int, path: Path, answer: Path) -> None:
    """In a process of its own; a file that takes too long, or crashes it, ends it."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2 * 2**30,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    rng, files = random.Random(seed), corpus()
    events: set[str] = set()
    watching = False

    def watch(event: str, arguments: tuple) -> None:
        if watching and event.startswith(WATCHED) and not (event == "open" and str(arguments[0]) == str(path)):
            events.add(f"{event} {arguments[0] if arguments else ''}"[:200])

    sys.addaudithook(watch)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    modules = set(sys.modules)
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    slowest, slowest_at = 0.0, 0
    for i in range(count):
        content, is_torch = changed(rng, files)
        path.write_bytes(content)
        signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
        start = time.process_time()
        watching = True
        try:
            outcome = _outcome(path, is_torch)
        except BaseException as error:
            outcome = f"{type(error).__name__}"
            faults.append(f"{type(error).__name__}: {str(error)[:200]} in file {i} of batch {seed}: {content[:200]!r}")
        finally:
            watching = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        spent = time.process_time() - start
        if spent > slowest:
            slowest, slowest_at = spent, i
        outcomes[outcome] += 1
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    document = {
        "outcomes": outcomes, "imports": sorted(set(sys.modules) - modules), "events": sorted(events),
        "faults": faults, "slowest": slowest, "slowest_at": slowest_at, "added": added,
    }  # fmt: skip
    answer.write_text(json.dumps(document))
    os._exit(0)


def _outcome(path: Path, is_torch: bool) -> str:
    """Read the file as a user would, and what it holds where that is no feature set."""
    low, high = (load_torch, read_state_dict) if is_torch else (load_plain, read)
    outcome = "read"
    for reader in (low, high):
        try:
            reader(path)
        except ValueError as error:
            if len(str(error).replace(str(path), "")) > MAX_MESSAGE:
                raise RuntimeError(f"a long message: {str(error)[:100]}") from None
            outcome = type(error).__name__ if reader is low else "read, but of another kind"
            if reader is low:
                return outcome
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for files that crash the reader")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = run(arguments.count, arguments.seed, Path(folder), arguments.keep)
    print(f"{report.count:,} files in {report.seconds:.0f} s; slowest {report.slowest:.3f} s ({report.slowest_file});")
    print(f"at most {report.added / 2**20:.0f} MiB added to a process; outcomes {dict(report.outcomes)};")
    print(f"imported: {sorted(report.imports)[:9] or 'nothing'}; events: {sorted(report.events)[:9] or 'none'};")
    print(f"faults: {len(report.faults)}", *report.faults[:20], sep="\n  ")
    sys.exit(bool(report.faults or report.imports or report.events))


if __name__ == "__main__":
    main()
