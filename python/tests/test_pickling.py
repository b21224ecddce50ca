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


def test_an_id_travels_instead(pageable):
    assert weir.device(pickle.loads(pickle.dumps(pageable.device.id))) == pageable.device
