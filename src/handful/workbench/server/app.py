"""The routes of the workbench, under /api/v1, and the page. Each is a thin face of `Project`."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from handful.workbench.domain import views
from handful.workbench.domain.exports import export
from handful.workbench.domain.project import Project, describe_run
from handful.workbench.domain.refusal import Refusal
from handful.workbench.server import schemas as of
from handful.workbench.server.events import Events
from handful.workbench.server.serve import ERRORS, guarded, new_app, solving
from handful.workbench.server.thumbnails import Thumbnails
from handful.workbench.server.uploads import receive_uploads
from handful.workbench.server.write_queue import Turns

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
         ".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".png": "image/png",
         ".json": "application/json", ".ico": "image/x-icon", ".woff2": "font/woff2"}  # fmt: skip
MOST = 1000  # items in one answer
DETAILS = 500  # items asked for by their numbers

Id = Annotated[int, Path(ge=0, lt=2**53)]
View = Annotated[str, Query(max_length=40, description=views.VIEWS)]
Search = Annotated[str, Query(max_length=500, description="Part of the name.")]
Similar = Annotated[int | None, Query(ge=0, lt=2**53, description="An item: the most similar first.")]


def make_app(project: Project, *, token: str, port: int) -> Any:
    """The guarded ASGI app of a project."""
    app = new_app("handful workbench")
    app.include_router(_items(project))
    turn = Turns(project)
    app.include_router(_labels(project, turn))
    app.include_router(_runs(project, turn))
    app.include_router(solving())
    _page(app)
    return guarded(app, token=token, port=port)


def _router() -> APIRouter:
    return APIRouter(prefix="/api/v1", responses=ERRORS)


def _items(project: Project) -> APIRouter:
    api, thumbnails = _router(), Thumbnails(project.source)

    @api.get("/project", response_model=of.Project)
    def get_project() -> Any:
        return JSONResponse(project.summary())

    @api.get("/skipped", response_model=list[of.Skipped])
    def get_skipped() -> Any:
        """Files that are no part of the pile, and why."""
        return [{"name": name, "reason": reason} for name, reason in project.state.skipped]

    @api.get("/items", response_model=of.Page)
    def get_items(
        view: View = "all",
        search: Search = "",
        similar: Similar = None,
        offset: Annotated[int, Query(ge=0, lt=2**53)] = 0,
        limit: Annotated[int, Query(ge=0, le=MOST)] = 200,
        ids: Annotated[str | None, Query(max_length=10_000, pattern=r"^[0-9]{1,15}(,[0-9]{1,15})*$")] = None,
    ) -> Any:
        """One page of a view; or with `ids=1,2,3` those items, in that order, without any that are gone."""
        state = project.state
        if ids is not None:
            wanted = [int(item) for item in ids.split(",")]
            if len(wanted) > DETAILS:
                raise Refusal(f"{len(wanted)} items are asked for: {DETAILS} are the most at once", 422)
            rows = views.rows_that_are_there(state, wanted)
            return JSONResponse({"total": len(rows), "offset": 0, "items": views.describe(state, rows)})
        rows = views.rows_of(state, view, search, similar)
        some = views.describe(state, rows[offset : offset + limit])
        return JSONResponse({"total": len(rows), "offset": offset, "items": some})

    @api.get("/ids", response_model=of.Order)
    def get_ids(view: View = "all", search: Search = "", similar: Similar = None) -> Any:
        """The whole order of a view at once."""
        state = project.state
        return JSONResponse({"ids": state.pile.ids[views.rows_of(state, view, search, similar)].tolist()})

    @api.get("/items/{item}", response_model=of.ItemInFull)
    def get_item(item: Id) -> Any:
        state = project.state
        row = views.row_of(state, item)
        (short,) = views.describe(state, views.rows_that_are_there(state, [item]))
        more = {"probabilities": views.probabilities(state, row), "nearest": views.nearest_examples(state, row)}
        width, height = thumbnails.size_of(state.pile.origins[row], state.pile.names[row])
        return JSONResponse(short | more | {"width": width, "height": height})

    @api.get("/pictures/{item}", response_class=Response)
    def get_picture(item: Id, size: int = 160) -> Response:
        """A picture, re-encoded as a small JPEG; size is 96, 160, 320 or 1024."""
        state = project.state
        row = views.row_of(state, item)
        data = thumbnails.get(item, state.pile.origins[row], state.pile.names[row], size)
        return Response(data, media_type="image/jpeg", headers={"cache-control": "private, max-age=86400, immutable"})

    @api.post("/upload", response_model=of.Uploaded)
    async def upload(request: Request) -> Any:
        """Pictures as multipart/form-data: 200 files of 50 MB at most."""
        return JSONResponse(await receive_uploads(project, request))

    return api


def _labels(project: Project, turn: Turns) -> APIRouter:
    api = _router()

    @api.get("/classes", response_model=list[of.Class])
    def get_classes() -> Any:
        return JSONResponse(project.summary()["classes"])

    @api.post("/classes", response_model=of.Class)
    async def add_class(new: of.NewClass) -> Any:
        return _class(project, await turn(project.add_class, new.name))

    @api.patch("/classes/{number}", response_model=of.Class)
    async def change_class(number: Id, new: of.ClassPatch) -> Any:
        """Rename it, or give it another key; the class that had the key loses it."""
        await turn(project.change_class, number, new.name, new.key, keyed="key" in new.model_fields_set)
        return _class(project, number)

    @api.delete("/classes/{number}", response_model=of.Changed)
    async def delete_class(number: Id) -> Any:
        """Its labels go with it; `changed` says how many."""
        return JSONResponse({"changed": await turn(project.delete_class, number)})

    @api.post("/labels", response_model=of.Changed)
    async def label(wanted: of.Labels) -> Any:
        """Give many items a class at once; each is an example for the next run."""
        return JSONResponse({"changed": await turn(project.label, wanted.items, wanted.class_)})

    @api.post("/accept", response_model=of.Changed)
    async def accept(wanted: of.Items) -> Any:
        """The decisions on these become given labels."""
        return JSONResponse({"changed": await turn(project.accept, wanted.items)})

    @api.post("/undo", response_model=of.Text)
    async def undo() -> Any:
        return {"text": await turn(project.undo)}

    @api.post("/redo", response_model=of.Text)
    async def redo() -> Any:
        return {"text": await turn(project.redo)}

    @api.post("/groups/{number}/promote", response_model=of.Class)
    async def promote(number: Id, wanted: of.Promotion) -> Any:
        """Its most central items become examples of a new class."""
        return _class(project, await turn(project.promote, number, wanted.name, wanted.examples))

    return api


def _class(project: Project, number: int) -> Any:
    return JSONResponse(next((c for c in project.summary()["classes"] if c["id"] == number), None))


def _runs(project: Project, turn: Turns) -> APIRouter:
    api, events = _router(), Events(project)

    @api.post("/run", response_model=of.Job, status_code=202)
    async def run(wanted: of.RunWanted) -> Any:
        """Label what has no label; GET /events tells how far it is."""
        return (await turn(project.run, wanted.method, wanted.outlier_share)).shown()

    @api.delete("/job", response_model=of.Job | None)
    def cancel() -> Any:
        """Stop what runs; the previous run stays."""
        project.worker.cancel()
        return project.summary()["job"]

    @api.get("/run", response_model=of.Run | None)
    def get_run() -> Any:
        return None if project.state.run is None else describe_run(project.state)

    @api.post("/threshold", response_model=of.Run)
    async def set_threshold(wanted: of.Threshold) -> Any:
        """Decisions follow at once."""
        await turn(project.set_threshold, wanted.threshold)
        return describe_run(project.state)

    @api.get("/histogram", response_model=of.Histogram)
    def histogram() -> Any:
        return JSONResponse(project.last_run().histogram())

    @api.get("/map", response_model=of.Map)
    def flat_map() -> Any:
        return JSONResponse(views.places(project.state))

    @api.get("/groups", response_model=list[of.Group])
    def groups() -> Any:
        """Unknown items that look alike, the most central first in each."""
        return JSONResponse(views.groups(project.state))

    @api.post("/export", response_model=of.Exported)
    def export_labels(wanted: of.ExportWanted) -> Any:
        return export(project, wanted.formats)

    @api.get("/events", response_class=StreamingResponse)
    async def get_events() -> StreamingResponse:
        return StreamingResponse(events.stream(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    return api


def _page(app: FastAPI) -> None:
    """The files of the page, by name: a request names one of those that are there, never a path."""
    folder = files("handful.workbench") / "page"

    def file(name: str) -> Response:
        for entry in folder.iterdir() if folder.is_dir() else ():
            suffix = name[name.rfind(".") :] if "." in name else ""
            if entry.name == name and entry.is_file() and suffix in TYPES:
                return Response(
                    entry.read_bytes(), headers={"content-type": TYPES[suffix], "cache-control": "no-cache"}
                )
        raise Refusal("there is no such file on this page", 404)

    @app.get("/", include_in_schema=False)
    def index() -> Response:
        return file("index.html")

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        return file(name)
