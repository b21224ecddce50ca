# SPDX-License-Identifier: Apache-2.0
"""What belongs to this process says why it cannot be pickled or copied, and what to do."""

import copy
import multiprocessing.reduction
import pickle

import pytest

import weir


@pytest.fixture(params=["Buffer", "Tensor", "Stream", "Event", "Device", "MemoryResource", "Pool", "LimitingResource",
                        "HostMirror", "MirroredBuffer"])
def thing(request, pageable):
    buffer = pageable.allocate(64)
    things = {
        "Buffer": buffer,
        "Tensor": buffer.view(),
        "Stream": pageable.stream,
        "Event": pageable.stream.record(),
        "Device": pageable.device,
        "MemoryResource": pageable.resource,
        "Pool": weir.make_pool(pageable.resource),
        "LimitingResource": weir.make_limiting(pageable.resource, 64),
        "HostMirror": weir.HostMirror(buffer, stream=pageable.stream),
        "MirroredBuffer": weir.MirroredBuffer(64, [pageable.stream]),
    }
    assert type(things[request.param]).__name__ == request.param
    return things[request.param]


WHAT_TO_DO = {
    "Buffer": "it owns memory. Use share.* copy_to.* ipc_descriptor",
    "Tensor": "it owns memory. Use copy_to.* weir.ipc.send",
    "Stream": "make a stream in each process",
    "Event": "weir.ipc.open orders",
    "Device": r"its id for weir.device\(id\)",
    "HostMirror": "it owns memory. Use copy_to",
    "MirroredBuffer": "it owns memory. Use read",
    "MemoryResource": "make a resource in each process",
}


@pytest.mark.parametrize(
    "way",
    [copy.copy, copy.deepcopy, pickle.dumps, lambda t: pickle.dumps(t, 0), lambda t: copy.deepcopy({"key": [t]})],
)
def test_no_way(thing, way):
    name = type(thing).__name__
    why = WHAT_TO_DO.get(name, WHAT_TO_DO["MemoryResource"])
    with pytest.raises(TypeError, match=f"^a weir.{name} cannot be pickled or copied: .*{why}"):
        way(thing)


def test_messages_of_multiprocessing_carry_no_others(thing):
    name = type(thing).__name__
    if name in ("Buffer", "Tensor", "Device"):
        pytest.skip("test_messages.py sends these")
    with pytest.raises(TypeError, match=f"^a weir.{name} cannot be pickled"):
        multiprocessing.reduction.ForkingPickler.dumps(thing)


def test_reports_of_this_process(pageable):
    statistics = weir.make_statistics(pageable.resource).statistics()
    for report, why in (
        (pageable.device.kinds[0], "the `kinds` of the device"),
        (weir.backends()[0], r"weir.backends\(\)"),
        (statistics, "Keep the numbers"),
        (statistics.bytes, "Keep the numbers"),
    ):
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=f"^a weir.{type(report).__name__} cannot be pickled or copied: .*{why}"):
                way(report)


def test_needs_of_padding_are_values():
    needs = weir.PaddingNeeds(3, at_least=4, multiple_of=2, aligned_to=8, exact=True)
    for other in (copy.copy(needs), copy.deepcopy([needs])[0], *(pickle.loads(pickle.dumps(needs, n)) for n in range(2, 6))):
        assert other == needs and other is not needs and hash(other) == hash(needs)


def test_an_id_travels_instead(pageable):
    assert weir.device(pickle.loads(pickle.dumps(pageable.device.id))) == pageable.device
