# SPDX-License-Identifier: Apache-2.0
"""Which buffers are live, and what is said about those that nobody closed."""

import gc
import os
import re
import time

import numpy as np
import pytest

import weir


def test_live_buffers_oldest_first(memory):
    tracked = weir.make_tracking(memory.resource)
    assert isinstance(tracked, weir.TrackingResource) and tracked.outstanding() == []
    first = tracked.allocate(100, stream=memory.stream)
    gone = tracked.allocate(200, stream=memory.stream)
    other = weir.Stream(memory.device)
    third = tracked.allocate(300, stream=other, alignment=1024)
    nothing = tracked.allocate(0, stream=memory.stream)
    gone.close()
    assert [(b.number, b.size, b.alignment, b.stream, b.stack) for b in tracked.outstanding()] == [
        (1, 100, 256, memory.stream.id, []),
        (3, 300, 1024, other.id, []),
    ]
    part = first.slice(10, 20)
    first.close()
    assert [b.number for b in tracked.outstanding()] == [1, 3], "a slice is an owner"
    part.close(), third.close(), nothing.close()
    assert tracked.outstanding() == []


def test_arrays_of_others_are_owners(host_memory):
    tracked = weir.make_tracking(host_memory.resource)
    array = np.asarray(tracked.allocate(64, stream=host_memory.stream))
    assert [b.size for b in tracked.outstanding()] == [64]
    del array
    assert tracked.outstanding() == []


def test_texts(pageable):
    tracked = weir.make_tracking(pageable.resource)
    kept = tracked.allocate(64, stream=pageable.stream)
    (found,) = tracked.outstanding()
    assert repr(found) == "<weir.TrackedBuffer 1, 64 bytes>" and kept.size == 64
    assert re.search(r"\b64\b", str(found)) and "\n" not in str(found)


def test_stacks(pageable):
    tracked = weir.make_tracking(pageable.resource, stack_depth=np.int8(6))
    kept = tracked.allocate(64, stream=pageable.stream)
    (found,) = tracked.outstanding()
    assert len(found.stack) == 6 and all(address > 4096 for address in found.stack) and kept.size
    assert "_weir" in str(found), "the module's own code is the innermost"


def leak(memory, **options):
    """A buffer whose resource has no handle left."""
    tracked = weir.make_tracking(memory.resource, **options)
    kept = tracked.allocate(321, stream=memory.stream)
    del tracked
    gc.collect()
    return kept


def test_what_nobody_closed_is_reported(memory, capfd):
    for _ in range(300):  # weir writes no more than sixteen lines in a second
        kept = leak(memory)
        told = capfd.readouterr().err
        if "tracking(" in told:
            break
        time.sleep(0.1)
    assert "1 buffers of 321 bytes live on after the last handle" in told
    kept.close()
    assert capfd.readouterr().err == ""


def test_reports_can_be_left_out(pageable, capfd):
    def told(**options):
        kept = leak(pageable, **options)
        return capfd.readouterr().err != "" and kept.size == 321

    for _ in range(300):
        before, without, behind = told(), told(report_leaks=False), told()
        assert not without
        if before and behind:  # it was not left out because there were too many lines
            return
        time.sleep(0.1)
    pytest.fail("nothing was ever reported")


def test_options(pageable):
    with pytest.raises(ValueError, match="stack_depth must not be negative: -1"):
        weir.make_tracking(pageable.resource, stack_depth=-1)
    with pytest.raises(TypeError, match="stack_depth must be an integer, not str"):
        weir.make_tracking(pageable.resource, stack_depth="8")
    with pytest.raises(TypeError):
        weir.make_tracking(pageable.resource, 8)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX warns wherever it is loaded
def test_a_forked_child_still_knows(pageable):
    tracked = weir.make_tracking(pageable.resource)
    kept = tracked.allocate(64, stream=pageable.stream)
    child = os.fork()
    if child == 0:
        os._exit(0 if [b.size for b in tracked.outstanding()] == [64] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert kept.size == 64
