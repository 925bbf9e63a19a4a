"""Answer POST /solve: from the bytes of a request to the bytes of the answer. It runs in a process of its own."""

from __future__ import annotations

import json
import signal
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from pydantic import ValidationError

import handful
from handful.core.arrays import to_numpy
from handful.engines.compiling import load_stored
from handful.project.refusal import Refusal, invalid
from handful.workbench.server.bodies import TENSORS, SolveOptions, SolveRequest


def work(requests: Connection) -> None:
    """Answer requests until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then ends this process
    load_stored()  # beside the first request
    while True:
        try:
            kind, body = requests.recv_bytes().decode(), requests.recv_bytes()
            status, answer = answer_of(kind, body)
            requests.send_bytes(b"%d" % status)
            requests.send_bytes(answer.encode())
        except (EOFError, OSError):
            return


def answer_of(kind: str, body: bytes) -> tuple[int, str]:
    """200 and JSON; or for any error, another status and a sentence."""
    try:
        return 200, json.dumps(solved(*(_from_tensors(body) if kind == TENSORS else _from_json(body))), allow_nan=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return 422, invalid(first["loc"], first["msg"])
    except Refusal as refusal:
        return refusal.status, str(refusal)
    except ValueError as error:
        return 400, str(error)
    except MemoryError:
        return 413, "there is not enough memory for this: send fewer rows at once"
    except Exception as error:
        return 500, f"something went wrong that should not ({type(error).__name__}): please report it"


def solved(options: SolveOptions, support: np.ndarray, query: np.ndarray) -> dict[str, Any]:
    """Solve a task; return the answers for JSON."""
    result = handful.solve(support, options.labels, query, method=options.method, outlier_share=options.outlier_share)
    interval, precision = result.outlier_share_interval, result.expected_precision
    return {
        "labels": result.labels.tolist(),
        "unknown": to_numpy(result.unknown).tolist(),
        "confidence": to_numpy(result.confidence).astype(np.float64).tolist(),
        "p_unknown": None if result.p_unknown is None else result.p_unknown.tolist(),
        "probabilities": to_numpy(result.probabilities).astype(np.float64).tolist(),
        "classes": result.classes.tolist(),
        "outlier_share": float(result.outlier_share),
        "outlier_share_interval": None if interval is None else np.ravel(interval).tolist(),
        "expected_precision": None if precision is None or np.isnan(precision) else precision,
    }


def _from_json(body: bytes) -> tuple[SolveOptions, np.ndarray, np.ndarray]:
    request = SolveRequest.model_validate_json(body)
    return request, _table(request.support, "support"), _table(request.query, "query")


def _table(rows: list[list[float]], name: str) -> np.ndarray:
    if len({len(row) for row in rows}) > 1:
        raise Refusal(f"the rows of {name} are not equally long: each needs the same features", 422)
    return np.array(rows, np.float64)


def _from_tensors(body: bytes) -> tuple[SolveOptions, np.ndarray, np.ndarray]:
    """A safetensors file with the arrays `support` and `query` and, in its metadata, `options` as JSON."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(body)
        metadata = json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")]).get("__metadata__") or {}
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise Refusal(f"the body is not a safetensors file that can be read ({type(error).__name__})", 422) from None
    if set(arrays) != {"support", "query"} or any(array.ndim != 2 for array in arrays.values()):
        raise Refusal("the body must hold two arrays of two dimensions, `support` and `query`, and no others", 422)
    if "options" not in metadata:
        raise Refusal('the metadata of the body lacks `options`: JSON such as {"labels": ["cat", "dog"]}', 422)
    return SolveOptions.model_validate_json(metadata["options"]), arrays["support"], arrays["query"]
