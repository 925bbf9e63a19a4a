"""The routes of the workbench, under /api/v1, and the files of its page.

Reading asks `handful.project.views`; a change is a function of `handful.project.edits`.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.resources import files
from pathlib import PurePath
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from handful.project import edits, views
from handful.project.live import LiveProject, formats_of
from handful.project.pile import Source
from handful.project.refusal import Refusal
from handful.workbench.server import schemas as of
from handful.workbench.server.guard import Guard
from handful.workbench.server.serve import new_app, router
from handful.workbench.server.solve import add_solve
from handful.workbench.server.uploads import receive_uploads

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}  # fmt: skip
MAX_PAGE_ITEMS = 1000  # items in one answer
FIRST_SAMPLE = 10  # items that a check asks for first
MAX_REQUESTED_ITEMS = 500  # items that a request may name by number

Id = Annotated[int, Path(ge=0, lt=2**53)]
View = Annotated[str, Query(max_length=80, description=views.VIEWS)]
Search = Annotated[str, Query(max_length=500, description="Part of the name, or of the text.")]
Similar = Annotated[int | None, Query(ge=0, lt=2**53, description="An item: the most similar ones come first.")]
Write = Callable[..., Any]  # await write(function, ...)

SIZES_PX = (96, 160, 320, 1024)
DECODER_SLOTS = threading.BoundedSemaphore(2)  # pictures decoded at a time: each may take 360 MB
HEARTBEAT_S = 15.0  # of an event stream
MIN_GAP_S = 0.1  # between two events: a progress bar need not move more often


def make_app(project: LiveProject, *, token: str, port: int) -> Guard:
    """The ASGI app of a project, behind the guard."""
    app, api, write = new_app("handful workbench"), router(), _writer(project)
    _add_items(api, project)
    _add_labels(api, project, write)
    _add_groups(api, project, write)
    _add_runs(api, project, write)
    _add_checks(api, project, write)
    add_solve(api)
    app.include_router(api)
    _add_page(app)
    return Guard(app, token=token, port=port)


def _writer(project: LiveProject) -> Write:
    """Return a function that makes edits one after the other, in the order of the requests, in another thread.

    An edit is on the disk when it returns, which takes milliseconds.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="handful-writer")

    async def write(edit: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(pool, partial(project.change, edit, *arguments))

    return write


def _add_items(api: APIRouter, project: LiveProject) -> None:
    @api.get("/project", response_model=dict[str, Any])
    def get_project() -> Any:
        """Everything that the page shows beside the items.

        `name`; `kind`: pictures, texts or embeddings; `can_add`: whether files can be uploaded; `formats` of POST
        /export; how many `items` there are, are `ready` and `skipped`; `classes`; `unknown_examples`: how many items a
        person marked as none of the classes; `run` and `job`, or null; what `undo` and `redo` would do, or null.
        """
        return JSONResponse(project.summary())

    @api.get("/skipped", response_model=list[dict[str, str]])
    def get_skipped() -> Any:
        """Files that are not in the pile: the `name` of each, and the `reason`."""
        return [{"name": name, "reason": reason} for name, reason in project.state.skipped]

    @api.get("/items", response_model=dict[str, Any])
    def get_items(
        view: View = "all",
        search: Search = "",
        similar: Similar = None,
        offset: Annotated[int, Query(ge=0, lt=2**53)] = 0,
        limit: Annotated[int, Query(ge=0, le=MAX_PAGE_ITEMS)] = 200,
        ids: Annotated[str | None, Query(max_length=10_000, pattern=r"^[0-9]{1,15}(,[0-9]{1,15})*$")] = None,
    ) -> Any:
        """One page of a view: its `items`, its `offset`, and how many the view has in `total`.

        With `ids=1,2,3` those items, in that order. Items that are gone are left out.
        """
        state = project.state
        if ids is not None:
            numbers = [int(item) for item in ids.split(",")]
            if len(numbers) > MAX_REQUESTED_ITEMS:
                raise Refusal(f"{len(numbers)} items are asked for: ask for at most {MAX_REQUESTED_ITEMS}", 422)
            rows = state.usable_rows(numbers)
            return JSONResponse({"total": len(rows), "offset": 0, "items": views.describe(state, rows)})
        rows = views.rows_of(project, state, view, search, similar)
        items = views.describe(state, rows[offset : offset + limit])
        return JSONResponse({"total": len(rows), "offset": offset, "items": items})

    @api.get("/ids", response_model=dict[str, list[int]])
    def get_ids(view: View = "all", search: Search = "", similar: Similar = None) -> Any:
        """The numbers of all items of a view in its order, `ids`."""
        state = project.state
        rows = views.rows_of(project, state, view, search, similar)
        return JSONResponse({"ids": state.pile.ids[rows].tolist()})

    @api.get("/items/{item}", response_model=of.Item)
    def get_item(item: Id) -> Any:
        """One item with all details: probabilities, nearest examples, size of the picture or the whole text."""
        state = project.state
        row = state.row_of(item)
        (short,) = views.describe(state, state.usable_rows([item]))
        more = {"probabilities": views.probabilities(state, row), "nearest": views.nearest_examples(state, row)}
        if state.pile.texts is not None:
            return JSONResponse(short | more | views.text_in_full(state.pile.texts[row], project.columns_of(row)))
        width, height = _size_of(project.source, state.pile.origins[row], state.pile.names[row])
        return JSONResponse(short | more | {"width": width, "height": height})

    @api.get("/pictures/{item}", response_class=Response)
    def get_picture(item: Id, size: int = 160) -> Response:
        """A picture, re-encoded as a small JPEG; size is 96, 160, 320 or 1024."""
        state = project.state
        row = state.row_of(item)
        if state.pile.texts is not None:
            raise Refusal("these items are texts and have no pictures: GET /items/ID has the text", 404)
        data = _small_picture(project.source, state.pile.origins[row], state.pile.names[row], size)
        return Response(data, media_type="image/jpeg", headers={"cache-control": "private, max-age=86400, immutable"})

    @api.post("/upload", response_model=dict[str, Any])
    async def upload(request: Request) -> Any:
        """Pictures, or .txt files, as multipart/form-data: 200 files of 50 MB at most.

        `added` is how many; `refused` has the `name` of each other file and the `reason`.
        """
        return JSONResponse(await receive_uploads(project, request))


# ---- small pictures: decoded within limits and encoded again, so that no other data is sent


def _small_picture(source: Source, origin: str, name: str, size: int) -> bytes:
    """The picture of an item as a small JPEG."""
    from handful.backbones.pictures import BadPicture, thumbnail

    if size not in SIZES_PX:
        raise Refusal(f"pictures come in sizes {', '.join(map(str, SIZES_PX))}: ask for one of these", 400)
    try:
        with DECODER_SLOTS:
            return thumbnail(name, size, opener=lambda _: source.open(origin, name))
    except BadPicture as error:
        raise Refusal(f"the picture {error.reason}", 404) from None


def _size_of(source: Source, origin: str, name: str) -> tuple[int, int]:
    """Width and height; 0 where there is no picture."""
    from handful.backbones.pictures import BadPicture, picture_size

    try:
        return picture_size(name, opener=lambda _: source.open(origin, name))
    except BadPicture:
        return 0, 0


# ---- labels, groups, runs


def _add_labels(api: APIRouter, project: LiveProject, write: Write) -> None:
    @api.get("/classes", response_model=list[of.Class])
    def get_classes() -> Any:
        """The classes, with the number of their examples and of the items decided for them."""
        return JSONResponse(project.summary()["classes"])

    @api.post("/classes", response_model=of.Class)
    async def add_class(new: of.NewClass) -> Any:
        """Add a class; it gets the next free key."""
        return _class(project, await write(edits.add_class, new.name))

    @api.patch("/classes/{number}", response_model=of.Class)
    async def change_class(number: Id, new: of.ClassPatch) -> Any:
        """Rename a class, or change its key; the class that had the key loses it."""
        await write(edits.change_class, number, new.name, new.key, "key" in new.model_fields_set)
        return _class(project, number)

    @api.delete("/classes/{number}", response_model=dict[str, int])
    async def delete_class(number: Id) -> Any:
        """Delete a class and its labels; `changed` is the number of labels."""
        return JSONResponse({"changed": await write(edits.delete_class, number)})

    @api.post("/labels", response_model=dict[str, int])
    async def label(body: of.Labels) -> Any:
        """Give many items a class; each becomes an example for the next run. `changed` is how many labels changed."""
        return JSONResponse({"changed": await write(edits.label, body.items, body.class_)})

    @api.post("/accept", response_model=dict[str, int])
    async def accept(body: of.Items) -> Any:
        """The decisions on these items become labels; `changed` is how many had none."""
        return JSONResponse({"changed": await write(edits.accept, body.items)})

    @api.post("/undo", response_model=dict[str, str])
    async def undo() -> Any:
        """Undo the last step; `text` says what it was."""
        return {"text": await write(edits.undo)}

    @api.post("/redo", response_model=dict[str, str])
    async def redo() -> Any:
        """Redo the step that was undone last; `text` says what it was."""
        return {"text": await write(edits.redo)}

    @api.post("/take-back", response_model=dict[str, str])
    async def take_back() -> Any:
        """Undo the last run and the promotion before it; `text` says what the promotion was."""
        return {"text": await write(edits.take_back)}


def _add_groups(api: APIRouter, project: LiveProject, write: Write) -> None:
    @api.get("/groups", response_model=list[dict[str, Any]])
    def groups() -> Any:
        """Groups of unknown items that look alike, the most central item first.

        Each has a `number`, a `name`, its `size`, how many `kinds` it seems to hold, how many `examples` it would give
        if promoted, a `representative` and all `items`.
        """
        return JSONResponse(views.groups(project.state))

    @api.post("/groups/{number}/promote", response_model=of.Class)
    async def promote(number: Id, body: of.Promotion) -> Any:
        """Items that stand for a group become examples of a new class, or of a class that exists."""
        return _class(project, await write(edits.promote, number, body.name, body.examples, body.class_))

    @api.post("/groups/{number}/split", response_model=list[dict[str, Any]])
    async def split_group(number: Id) -> Any:
        """Split a group into the kinds that it looks like."""
        await write(edits.split_group, number)
        return JSONResponse(views.groups(project.state))

    @api.post("/groups/{number}/join", response_model=list[dict[str, Any]])
    async def join_groups(number: Id, body: of.JoinRequest) -> Any:
        """Join two groups."""
        await write(edits.join_groups, number, body.other)
        return JSONResponse(views.groups(project.state))

    @api.post("/groups", response_model=list[dict[str, Any]])
    async def find_groups(body: of.GroupDetail) -> Any:
        """Find the groups anew, coarser or finer."""
        await write(edits.find_groups, body.detail)
        return JSONResponse(views.groups(project.state))


def _add_runs(api: APIRouter, project: LiveProject, write: Write) -> None:
    @api.post("/run", response_model=dict[str, Any], status_code=202)
    def run(body: of.RunRequest) -> Any:
        """Label the items without a label; GET /events reports the progress.

        A job has a `kind`, embed or solve; a `state`: running, failed, cancelled or done; `done` of `total` steps; and
        a `message`.
        """
        return project.run(body.method, body.outlier_share).summary()

    @api.delete("/job", response_model=dict[str, Any] | None)
    def cancel() -> Any:
        """Stop the running job; the previous run stays."""
        project.worker.cancel()
        return project.summary()["job"]

    @api.get("/run", response_model=dict[str, Any] | None)
    def get_run() -> Any:
        """The run that is shown; null before the first one.

        `id`, `made`, `method`, `sentence`, `threshold`, `group_detail`; the `share` of unknowns with its interval,
        `share_low` and `share_high`, and `share_told`: whether it was given; `counts` of items that are labelled,
        unknown, and changed since the run before; `notice`: what changed more than a promotion explains, and
        `can_take_back`: whether POST /take-back undoes it; `outdated`: what has changed since, in words.
        `expected_precision` is the part of the labels that should be right, or null; `expected` has by `class` how many
        `labels` it got and how many should be `right`. `trust` says it in a `sentence`; after a check it `is_measured`
        from as many answers as `checked`, with `details`, `more_to_halve` (further answers that would about halve the
        interval), and by the `classes` the part of the labels that are right: `value`, `low`, `high`.
        """
        return None if project.state.run is None else views.describe_run(project.state)

    @api.get("/runs", response_model=list[dict[str, Any]])
    def get_runs() -> Any:
        """The runs that undo and redo lead to: the `id` of each, when it was `made`, and whether it `is_shown`."""
        return JSONResponse(views.describe_runs(project))

    @api.get("/compare", response_model=dict[str, Any])
    def get_comparison(
        first: Annotated[int, Query(ge=1, lt=2**53)], second: Annotated[int, Query(ge=1, lt=2**53)]
    ) -> Any:
        """How many items are the `same` at two runs, how many `moved`, and the `moves`: `count`, `from`, `to`.

        An item that had a label by a person counts with that label.
        """
        return JSONResponse(views.compare(project, first, second))

    @api.post("/threshold", response_model=dict[str, Any])
    async def set_threshold(body: of.Threshold) -> Any:
        """Change the threshold and all decisions."""
        await write(edits.set_threshold, body.threshold)
        return views.describe_run(project.state)

    @api.get("/histogram", response_model=dict[str, Any])
    def histogram() -> Any:
        """How many items are `known` and `unknown` in each bin of outlier scores, its `edges`, and the `threshold`."""
        return JSONResponse(project.state.last_run().histogram())

    @api.get("/map", response_model=dict[str, list[float]])
    def flat_map() -> Any:
        """The place of each item on the map, `ids`, `x` and `y`: similar items are near each other."""
        return JSONResponse(views.places(project.state))

    @api.post("/export", response_model=dict[str, Any])
    def export_labels(body: of.ExportRequest) -> Any:
        """Write the labels as `files` into a new or empty `folder`; `missing` is how many could not be copied."""
        from handful.project.export_files import export  # here: it brings scikit-learn, which takes two seconds

        formats = body.formats
        if "formats" not in body.model_fields_set:
            formats = [name for name in formats if name in formats_of(project.source)]
        return export(project, formats, body.folder)

    @api.get("/download", response_class=StreamingResponse)
    def get_download(formats: Annotated[str, Query(max_length=200, description="As in POST /export.")]) -> Any:
        """An export as a file for the browser: a .zip, unless one format is one file."""
        from handful.project.export_files import download

        try:
            names = of.Formats.validate_python(formats.split(","))
        except ValueError:
            raise Refusal("formats: give some of those of POST /export, with commas between them", 422) from None
        name, content = download(project, names)
        headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
        return StreamingResponse(content, media_type="application/octet-stream", headers=headers)

    @api.get("/events", response_class=StreamingResponse)
    async def get_events() -> StreamingResponse:
        """A stream of server-sent events: one after each change, with its new state."""
        return StreamingResponse(
            _events(project), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )


async def _events(project: LiveProject) -> AsyncIterator[str]:
    """Server-sent events: the project now, and after each change."""
    loop, news = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:  # from any thread
        with suppress(RuntimeError):  # the loop has ended, and nobody listens
            loop.call_soon_threadsafe(news.set)

    unlisten = project.listen(tell)
    sent: dict[str, Any] = {}
    try:
        news.set()
        while True:
            try:
                await asyncio.wait_for(news.wait(), HEARTBEAT_S)
            except asyncio.TimeoutError:
                yield ": still here\n\n"
                continue
            news.clear()
            body = project.summary()
            job = body["job"]
            if job is not None and job["state"] == "running":
                yield _event("progress", {name: job[name] for name in ("kind", "done", "total")})
            if _without_progress(body) != _without_progress(sent):
                yield _event("project", body)
            sent = body
            await asyncio.sleep(MIN_GAP_S)
    finally:
        unlisten()


def _event(name: str, body: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(body, allow_nan=False)}\n\n"


def _without_progress(body: dict[str, Any]) -> dict[str, Any]:
    job = body.get("job")
    calm = None if job is None else {k: v for k, v in job.items() if k not in ("done", "total")}
    return body | {"job": calm}


def _add_checks(api: APIRouter, project: LiveProject, write: Write) -> None:
    @api.get("/check", response_model=dict[str, Any])
    def get_check(count: Annotated[int, Query(ge=1, le=MAX_PAGE_ITEMS)] = FIRST_SAMPLE) -> Any:
        """Items of the `run` that a person should look at, to find out how many labels are right, in their `order`.

        `answers` has each `item` that has one and its `answer`: a class, 0 for none of them, -1 for a wrong label.
        `usable` is how many of them POST /check/use would make labels of.
        """
        return JSONResponse(views.describe_check(project, count))

    @api.post("/check", response_model=dict[str, Any])
    async def answer(body: of.CheckAnswer) -> Any:
        """Store one answer. It is no label, and belongs to this run."""
        await write(edits.answer, body.run, body.item, body.answer)
        return views.describe_run(project.state)

    @api.post("/check/use", response_model=dict[str, int])
    async def use_answers() -> Any:
        """The answers become labels, in one step; `changed` is how many."""
        return JSONResponse({"changed": await write(edits.use_answers)})


def _class(project: LiveProject, number: int) -> Any:
    return JSONResponse(next((c for c in project.summary()["classes"] if c["id"] == number), None))


def _add_page(app: FastAPI) -> None:
    """The files of the page. A request gives the name of one of them, never a path."""
    names = {entry.name: entry for entry in (files("handful.workbench") / "page").iterdir()}

    def file(name: str) -> Response:
        content_type = CONTENT_TYPES.get(PurePath(name).suffix)
        if name not in names or content_type is None:
            raise Refusal("there is no such file on this page", 404)
        headers = {"content-type": content_type, "cache-control": "no-cache"}
        return Response(names[name].read_bytes(), headers=headers)

    @app.get("/", include_in_schema=False)
    def index() -> Response:
        return file("index.html")

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        return file(name)
