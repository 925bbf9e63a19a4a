"""The routes of runs, of what follows from them, and of checks. Each calls a method of `Project`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, StreamingResponse

from handful.project import views
from handful.project.live import LiveProject, formats_of
from handful.project.refusal import Refusal
from handful.project.state import FIRST_SAMPLE
from handful.project.views import describe_run
from handful.workbench.server import bodies
from handful.workbench.server import schemas as of
from handful.workbench.server.events import Events
from handful.workbench.server.serve import ERRORS
from handful.workbench.server.write_queue import WriteQueue

MAX_PAGE_ITEMS = 1000  # items in one response


def router() -> APIRouter:
    """Routes under /api/v1 whose errors are sentences."""
    return APIRouter(prefix="/api/v1", responses=ERRORS)


def run_routes(project: LiveProject, write: WriteQueue) -> APIRouter:
    """Runs and what follows from them: groups, the map, comparisons, exports."""
    api, events = router(), Events(project)

    @api.post("/run", response_model=of.Job, status_code=202)
    async def run(body: bodies.RunRequest) -> Any:
        """Label the items without a label; GET /events reports the progress."""
        return (await write(project.run, body.method, body.outlier_share)).summary()

    @api.delete("/job", response_model=of.Job | None)
    def cancel() -> Any:
        """Stop the running job; the previous run stays."""
        project.worker.cancel()
        return project.summary()["job"]

    @api.get("/run", response_model=of.Run | None)
    def get_run() -> Any:
        """The run that is shown; null before the first one."""
        return None if project.state.run is None else describe_run(project.state)

    @api.get("/runs", response_model=list[of.StoredRun])
    def get_runs() -> Any:
        """The runs that undo and redo lead to: two of them can be compared."""
        return JSONResponse(views.describe_runs(project))

    @api.get("/compare", response_model=of.Comparison)
    def get_comparison(
        first: Annotated[int, Query(ge=1, lt=2**53)], second: Annotated[int, Query(ge=1, lt=2**53)]
    ) -> Any:
        """How many items moved from each class to each other one."""
        return JSONResponse(views.compare(project, first, second))

    @api.post("/threshold", response_model=of.Run)
    async def set_threshold(body: bodies.Threshold) -> Any:
        """Change the threshold and all decisions."""
        await write(project.set_threshold, body.threshold)
        return describe_run(project.state)

    @api.get("/histogram", response_model=of.Histogram)
    def histogram() -> Any:
        """How many items have which outlier score, for the slider of the threshold."""
        return JSONResponse(project.last_run().histogram())

    @api.get("/map", response_model=of.Map)
    def flat_map() -> Any:
        """The place of each item on the map: similar items are near each other."""
        return JSONResponse(views.places(project.state))

    @api.get("/groups", response_model=list[of.Group])
    def groups() -> Any:
        """Groups of unknown items that look alike, the most central item first."""
        return JSONResponse(views.groups(project.state))

    @api.post("/export", response_model=of.Exported)
    def export_labels(body: bodies.ExportRequest) -> Any:
        """Write the labels as files, into a new or empty folder."""
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
            names = bodies.Formats.validate_python(formats.split(","))
        except ValueError:
            raise Refusal("formats: give some of those of POST /export, with commas between them", 422) from None
        name, content = download(project, names)
        headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
        return StreamingResponse(content, media_type="application/octet-stream", headers=headers)

    @api.get("/events", response_class=StreamingResponse)
    async def get_events() -> StreamingResponse:
        """A stream of server-sent events: one after each change, with its new state."""
        return StreamingResponse(events.stream(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    return api


def check_routes(project: LiveProject, write: WriteQueue) -> APIRouter:
    """The check of a run."""
    api = router()

    @api.get("/check", response_model=of.Check)
    def get_check(count: Annotated[int, Query(ge=1, le=MAX_PAGE_ITEMS)] = FIRST_SAMPLE) -> Any:
        """Items of the run that a person should look at, to find out how many labels are right."""
        return JSONResponse(project.check(count))

    @api.post("/check", response_model=of.Run)
    async def answer(body: bodies.CheckAnswer) -> Any:
        """Store one answer. It is no label, and belongs to this run."""
        await write(project.answer, body.run, body.item, body.answer)
        return describe_run(project.state)

    @api.post("/check/use", response_model=of.Changed)
    async def use_answers() -> Any:
        """The answers become labels, in one step."""
        return JSONResponse({"changed": await write(project.use_answers)})

    return api
