"""Short runs of the programs of ``make soak``."""

from __future__ import annotations

import gc
import linecache

import pytest
import torch

import dynamo_lite as dl
import soak
import soak_changes
import soak_company
from processes import run_program


def test_models_one_after_the_other_leave_nothing():
    """The test runs in its own process: objects of other tests are freed at any time."""
    program = "import soak; print(*soak.soak_models(14))"
    done = run_program(program)
    assert done.returncode == 0, done.stderr
    objects, memory = map(int, done.stdout.split())
    assert objects < 5, f"{objects} objects a model"
    assert memory < 100, f"{memory} KiB a model"


def test_threads_that_do_everything_at_once():
    done = soak.soak_threads(4)
    assert done["calls"] > 100
    assert done["compiles"] > 0


def test_threads_with_a_model_each():
    assert soak_company.soak_models_on_threads(3) >= 8


def test_a_hundred_greenlets_that_switch_in_compiled_calls():
    pytest.importorskip("gevent")
    assert soak_company.soak_greenlets(3) > 100


@pytest.mark.changes_what_is_guarded
def test_values_that_change_while_they_are_compiled():
    assert soak_changes.soak_changed_values(3) > 20


def test_code_that_is_deallocated_with_entries_of_several_owners():
    assert soak_changes.soak_deallocated_code(2) >= 4


def test_calls_beside_backends_that_hang():
    assert soak_changes.soak_hanging_backends(2) >= 80


def test_objects_referenced_only_by_their_entries():
    assert soak_changes.soak_cycles(3) >= 4


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # set while a finalizer runs
def test_exceptions_of_another_thread_at_any_time():
    assert soak_changes.soak_asynchronous_exceptions(5) >= 5


def test_workers_that_are_forked_beside_threads():
    """The test runs in its own process, which has no other threads."""
    done = run_program("import soak_company; print(soak_company.soak_forks(3))")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 4


def test_a_pool_of_processes():
    done = run_program("import soak_company; print(soak_company.soak_pool(3))")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 4


def test_source_of_a_graph_is_freed_with_its_code():
    """A permanent backend keeps its compiled code as long as the code object exists. This backend isn't permanent."""

    def backend(graph, example_inputs):
        return soak.gm_forward(graph, example_inputs)

    def sources():
        return {name for name in linecache.cache if name.startswith("<eval_with_key>")}

    before = sources()
    compiled = dl.compile(lambda x: x * 2, backend=backend)
    compiled(torch.ones(2))
    made = sources() - before
    assert len(made) == 1
    del compiled
    gc.collect()
    assert not made & sources()
