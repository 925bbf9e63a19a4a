"""One pile over a Ray cluster: the same result as on one machine, whoever dies meanwhile."""

import time
from threading import Timer

import numpy as np
import pytest
from test_streaming import furthest, some_task, write_parquet

import handful
from handful.cluster import Actors
from handful.cluster.actors import ActorCrew
from handful.streaming.passes import Pass, View
from handful.streaming.pile import Pile

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """A task, and its pile as a folder of Parquet shards."""
    support, labels, query = some_task(21, 5, 5, 6000, 64)
    folder = tmp_path_factory.mktemp("pile")
    for i, part in enumerate(np.array_split(query, 7)):
        write_parquet(folder / f"part-{i}.parquet", part, 150)
    return support, labels, query, folder


@pytest.fixture(scope="module")
def undisturbed(task):
    """EOL in memory, where nobody dies."""
    return handful.solve(*task[:3], method="eol", outlier_share=0.5)


def solve_with_a_death(nodes, given, pile, when):
    """EOL over both nodes, of which one is killed after `when` passes; the result, and how many passes it took."""
    seen = []

    def progress(done, total):
        seen.append(done)
        if done == when:
            nodes.kill()

    found = handful.solve(
        *given,
        pile,
        method="eol",
        outlier_share=0.5,
        streaming=handful.streaming.Streaming(engine=Actors(), progress=progress),
    )
    return found, len(seen)


@pytest.mark.parametrize("method", ["eol", "oslo", "ostim", "tim_gd", "simpleshot", "knn", "auto"])
def test_two_nodes_find_what_one_machine_finds(nodes, task, method):
    support, labels, query, folder = task
    options = {"steps": 40} if method == "tim_gd" else {}  # of 1000, each a pass
    whole = handful.solve(support, labels, query, method=method, **options)
    for pile in (folder, Pile(query)) if method == "eol" else (folder,):
        spread = handful.streaming.Streaming(engine=Actors(), block_rows=233)
        found = handful.solve(support, labels, pile, method=method, streaming=spread, **options)
        assert furthest(found, whole) <= 1e-5
        assert abs(found.outlier_share - whole.outlier_share) < 1e-6


def test_what_is_wrong_with_the_pile_is_said_as_on_one_machine(nodes, task):
    support, labels, query, _ = task
    query = query.copy()
    query[4321, 6] = np.nan
    with pytest.raises(ValueError, match="^query contains NaN at row 4321, column 6"):
        handful.solve(
            support, labels, Pile(query), method="eol", streaming=handful.streaming.Streaming(engine=Actors())
        )


def test_actors_hold_no_more_than_they_may(nodes, task):
    support, labels, query, folder = task
    whole = handful.solve(support, labels, query, method="oslo")
    assert (
        furthest(
            handful.solve(
                support, labels, folder, method="oslo", streaming=handful.streaming.Streaming(engine=Actors(hold=0))
            ),
            whole,
        )
        <= 1e-5
    )


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_node_that_dies_costs_its_part_of_one_pass(nodes, task, undisturbed, on_disk, monkeypatch):
    support, labels, query, folder = task
    buried, bury = [], ActorCrew._bury
    monkeypatch.setattr(ActorCrew, "_bury", lambda self, actor: buried.append(actor) or bury(self, actor))
    found, passes = solve_with_a_death(nodes, (support, labels), folder if on_disk else Pile(query), when=20)
    assert buried, "the node died too late"
    assert passes == 52  # none was made twice for the journal's sake
    assert furthest(found, undisturbed) <= 1e-5


@pytest.mark.parametrize("when", [(0.3, 1.0), (0.3, 2.2)])
def test_no_row_counts_twice_however_many_die_in_one_pass(nodes, when):
    def count(rows):  # in here, so that it is sent: the nodes do not have this file
        return {"rows": np.array([len(rows)])}

    def count_slowly(rows):
        time.sleep(0.2)
        return count(rows)

    crew = Actors().open(Pile(np.ones((4000, 8), np.float32)), block_rows=250)
    try:
        assert len(crew.actors) == 2
        victims = list(crew.actors)
        killers = [Timer(at, crew.ray.kill, [actor]) for at, actor in zip(when, victims, strict=True)]
        for killer in killers:
            killer.start()
        assert crew.sums(Pass(count_slowly, {}, View((), "float32")))["rows"] == 4000
        assert not set(victims) & set(crew.actors), "they died too late"
        assert crew.sums(Pass(count, {}, View((), "float32")))["rows"] == 4000
    finally:
        for killer in killers:
            killer.join()
        crew.close()


def test_actors_that_die_one_after_the_other_in_one_pass_leave_no_row_out(nodes, task, undisturbed, monkeypatch):
    """The second dies with rows of the first, which it was to go through once more."""
    support, labels, _, folder = task
    bury, dead = ActorCrew._bury, []

    def bury_and_kill_another(self, actor):
        bury(self, actor)
        if len(dead) < 2 and actor not in dead:
            dead.append(actor)
            self.ray.kill(next(iter(self.actors)))

    monkeypatch.setattr(ActorCrew, "_bury", bury_and_kill_another)
    found, passes = solve_with_a_death(nodes, (support, labels), folder, when=20)
    assert len(dead) == 2
    assert passes == 52
    assert furthest(found, undisturbed) <= 1e-5


def test_a_node_that_dies_while_items_are_scored_leaves_no_row_out(nodes, task, undisturbed):
    support, labels, _, folder = task
    nodes.revive()
    found, _ = solve_with_a_death(nodes, (support, labels), folder, when=52)  # the last pass: only scores are left
    assert np.isfinite(found.outlier_scores).all()
    assert furthest(found, undisturbed) <= 1e-5
    nodes.revive()
