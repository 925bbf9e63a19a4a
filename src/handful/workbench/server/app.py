"""The routes of items and labels, under /api/v1, and the files of the page. Each route calls a method of `Project`."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from handful.project import views
from handful.project.live import LiveProject
from handful.project.refusal import Refusal
from handful.project.state import State
from handful.workbench.server import bodies
from handful.workbench.server import schemas as of
from handful.workbench.server.run_routes import MAX_PAGE_ITEMS, check_routes, router, run_routes
from handful.workbench.server.serve import guarded, new_app, solving
from handful.workbench.server.thumbnails import Thumbnails
from handful.workbench.server.uploads import receive_uploads
from handful.workbench.server.write_queue import WriteQueue

CONTENT_TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
         ".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".png": "image/png",
         ".json": "application/json", ".ico": "image/x-icon", ".woff2": "font/woff2"}  # fmt: skip
MAX_REQUESTED_ITEMS = 500  # items that a request may name by number

Id = Annotated[int, Path(ge=0, lt=2**53)]
View = Annotated[str, Query(max_length=80, description=views.VIEWS)]
Search = Annotated[str, Query(max_length=500, description="Part of the name, or of the text.")]
Similar = Annotated[int | None, Query(ge=0, lt=2**53, description="An item: the most similar ones come first.")]


def make_app(project: LiveProject, *, token: str, port: int) -> Any:
    """The ASGI app of a project, behind the guard."""
    app = new_app("handful workbench")
    app.include_router(_items(project))
    write = WriteQueue(project)
    app.include_router(_labels(project, write))
    app.include_router(run_routes(project, write))
    app.include_router(check_routes(project, write))
    app.include_router(solving())
    _page(app)
    return guarded(app, token=token, port=port)


def _items(project: LiveProject) -> APIRouter:
    api, thumbnails = router(), Thumbnails(project.source)

    @api.get("/project", response_model=of.Project)
    def get_project() -> Any:
        """Everything that the page shows beside the items: classes, run, job, steps."""
        return JSONResponse(project.summary())

    @api.get("/skipped", response_model=list[of.Skipped])
    def get_skipped() -> Any:
        """Files that are not in the pile, and why."""
        return [{"name": name, "reason": reason} for name, reason in project.state.skipped]

    @api.get("/items", response_model=of.Page)
    def get_items(
        view: View = "all",
        search: Search = "",
        similar: Similar = None,
        offset: Annotated[int, Query(ge=0, lt=2**53)] = 0,
        limit: Annotated[int, Query(ge=0, le=MAX_PAGE_ITEMS)] = 200,
        ids: Annotated[str | None, Query(max_length=10_000, pattern=r"^[0-9]{1,15}(,[0-9]{1,15})*$")] = None,
    ) -> Any:
        """One page of a view; or with `ids=1,2,3` those items, in that order. Items that are gone are left out."""
        state = project.state
        if ids is not None:
            numbers = [int(item) for item in ids.split(",")]
            if len(numbers) > MAX_REQUESTED_ITEMS:
                raise Refusal(f"{len(numbers)} items are asked for: ask for at most {MAX_REQUESTED_ITEMS}", 422)
            rows = views.usable_rows(state, numbers)
            return JSONResponse({"total": len(rows), "offset": 0, "items": views.describe(state, rows)})
        rows = _rows(project, state, view, search, similar)
        items = views.describe(state, rows[offset : offset + limit])
        return JSONResponse({"total": len(rows), "offset": offset, "items": items})

    @api.get("/ids", response_model=of.Order)
    def get_ids(view: View = "all", search: Search = "", similar: Similar = None) -> Any:
        """The numbers of all items of a view, in its order."""
        state = project.state
        return JSONResponse({"ids": state.pile.ids[_rows(project, state, view, search, similar)].tolist()})

    @api.get("/items/{item}", response_model=of.ItemInFull)
    def get_item(item: Id) -> Any:
        """One item with all details: probabilities, nearest examples, size of the picture or the whole text."""
        state = project.state
        row = views.row_of(state, item)
        (short,) = views.describe(state, views.usable_rows(state, [item]))
        more = {"probabilities": views.probabilities(state, row), "nearest": views.nearest_examples(state, row)}
        if state.pile.texts is not None:
            return JSONResponse(short | more | views.text_in_full(state.pile.texts[row], project.columns_of(row)))
        width, height = thumbnails.size_of(state.pile.origins[row], state.pile.names[row])
        return JSONResponse(short | more | {"width": width, "height": height})

    @api.get("/pictures/{item}", response_class=Response)
    def get_picture(item: Id, size: int = 160) -> Response:
        """A picture, re-encoded as a small JPEG; size is 96, 160, 320 or 1024."""
        state = project.state
        row = views.row_of(state, item)
        if state.pile.texts is not None:
            raise Refusal("these items are texts and have no pictures: GET /items/ID has the text", 404)
        data = thumbnails.get(item, state.pile.origins[row], state.pile.names[row], size)
        return Response(data, media_type="image/jpeg", headers={"cache-control": "private, max-age=86400, immutable"})

    @api.post("/upload", response_model=of.Uploaded)
    async def upload(request: Request) -> Any:
        """Pictures, or .txt files, as multipart/form-data: 200 files of 50 MB at most."""
        return JSONResponse(await receive_uploads(project, request))

    return api


def _rows(project: LiveProject, state: State, view: str, search: str, similar: int | None) -> Any:
    moved = views.moved_rows(project, state, view) if view.startswith("moved:") else None
    return views.rows_of(state, view, search, similar, moved)


def _labels(project: LiveProject, write: WriteQueue) -> APIRouter:
    api = router()

    @api.get("/classes", response_model=list[of.Class])
    def get_classes() -> Any:
        """The classes, with the number of their examples and of the items decided for them."""
        return JSONResponse(project.summary()["classes"])

    @api.post("/classes", response_model=of.Class)
    async def add_class(new: bodies.NewClass) -> Any:
        """Add a class; it gets the next free key."""
        return _class(project, await write(project.add_class, new.name))

    @api.patch("/classes/{number}", response_model=of.Class)
    async def change_class(number: Id, new: bodies.ClassPatch) -> Any:
        """Rename a class, or change its key; the class that had the key loses it."""
        await write(project.change_class, number, new.name, new.key, keyed="key" in new.model_fields_set)
        return _class(project, number)

    @api.delete("/classes/{number}", response_model=of.Changed)
    async def delete_class(number: Id) -> Any:
        """Delete a class and its labels; `changed` is the number of labels."""
        return JSONResponse({"changed": await write(project.delete_class, number)})

    @api.post("/labels", response_model=of.Changed)
    async def label(body: bodies.Labels) -> Any:
        """Give many items a class; each becomes an example for the next run."""
        return JSONResponse({"changed": await write(project.label, body.items, body.class_)})

    @api.post("/accept", response_model=of.Changed)
    async def accept(body: bodies.Items) -> Any:
        """The decisions on these items become labels."""
        return JSONResponse({"changed": await write(project.accept, body.items)})

    @api.post("/undo", response_model=of.Text)
    async def undo() -> Any:
        """Undo the last step."""
        return {"text": await write(project.undo)}

    @api.post("/redo", response_model=of.Text)
    async def redo() -> Any:
        """Redo the step that was undone last."""
        return {"text": await write(project.redo)}

    @api.post("/take-back", response_model=of.Text)
    async def take_back() -> Any:
        """Undo the last run and the promotion before it."""
        return {"text": await write(project.take_back)}

    @api.post("/groups/{number}/promote", response_model=of.Class)
    async def promote(number: Id, body: bodies.Promotion) -> Any:
        """Items that stand for a group become examples of a new class, or of a class that exists."""
        return _class(project, await write(project.promote, number, body.name, body.examples, body.class_))

    @api.post("/groups/{number}/split", response_model=list[of.Group])
    async def split_group(number: Id) -> Any:
        """Split a group into the kinds that it looks like."""
        await write(project.split_group, number)
        return JSONResponse(views.groups(project.state))

    @api.post("/groups/{number}/join", response_model=list[of.Group])
    async def join_groups(number: Id, body: bodies.JoinRequest) -> Any:
        """Join two groups."""
        await write(project.join_groups, number, body.other)
        return JSONResponse(views.groups(project.state))

    @api.post("/groups", response_model=list[of.Group])
    async def find_groups(body: bodies.GroupDetail) -> Any:
        """Find the groups anew, coarser or finer."""
        await write(project.find_groups, body.detail)
        return JSONResponse(views.groups(project.state))

    return api


def _class(project: LiveProject, number: int) -> Any:
    return JSONResponse(next((c for c in project.summary()["classes"] if c["id"] == number), None))


def _page(app: FastAPI) -> None:
    """The files of the page. A request gives the name of one of them, never a path."""
    folder = files("handful.workbench") / "page"

    def file(name: str) -> Response:
        for entry in folder.iterdir() if folder.is_dir() else ():
            suffix = name[name.rfind(".") :] if "." in name else ""
            if entry.name == name and entry.is_file() and suffix in CONTENT_TYPES:
                return Response(
                    entry.read_bytes(), headers={"content-type": CONTENT_TYPES[suffix], "cache-control": "no-cache"}
                )
        raise Refusal("there is no such file on this page", 404)

    @app.get("/", include_in_schema=False)
    def index() -> Response:
        return file("index.html")

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        return file(name)
