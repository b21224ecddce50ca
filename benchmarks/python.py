#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Python pays for tensors and memory: weir beside NumPy, PyTorch, CuPy and cuda.core, in one process.

    PYTHONPATH=build/release/python python3 benchmarks/python.py

Each line is the median of 15 rounds, after one call that is not counted. What is not installed is left out, and so is
CUDA where there is no GPU. A call on a stream includes what the driver takes for it.
"""

import importlib
import statistics
import time

import numpy as np

import weir
import weir.ipc


def find(module):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        print(f"left out: {module}: {error}")
        return None


def median(call, calls, before):
    call()
    rounds = []
    for _ in range(15):
        before()
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter_ns() - begin) / calls)
    return statistics.median(rounds)


def row(name, call, calls=2000, before=lambda: None):
    try:
        print(f"{name:52s} {median(call, calls, before):9.0f} ns", flush=True)
    except (TypeError, ValueError, RuntimeError, BufferError, AttributeError) as error:
        print(f"{name:52s} refused: {type(error).__name__}: {error}", flush=True)


def of_host(torch):
    stream = weir.Stream(weir.host_device())
    ours = weir.make_pool(weir.make_resource(weir.host_device())).allocate(4096, stream=stream).view("float32")
    stream.synchronize()
    arrays = {"weir": ours, "numpy": np.zeros(1024, "float32")}
    if torch:
        arrays["torch"] = torch.zeros(1024)
    for name, array in arrays.items():
        row(f"{name} host.__dlpack__() + delete", array.__dlpack__)
        row(f"{name} host.__dlpack__(max_version) + delete", lambda array=array: array.__dlpack__(max_version=(1, 3)))
    takers = {"np": np.from_dlpack, "weir": weir.from_dlpack} | ({"torch": torch.from_dlpack} if torch else {})
    for name, array in arrays.items():
        for taker, take in takers.items():
            row(f"{taker}.from_dlpack({name} host)", lambda take=take, array=array: take(array))


def of_cuda(device, torch, cupy):
    stream = weir.Stream(device)
    pool = weir.make_pool(weir.make_resource(device, "vmm"))
    arrays, takers = {"weir": pool.allocate(4096, stream=stream).view("float32")}, {"weir": weir.from_dlpack}
    if torch:
        arrays["torch"], takers["torch"] = torch.zeros(1024, device="cuda"), torch.from_dlpack
        torch.cuda.synchronize()
    if cupy:
        arrays["cupy"], takers["cupy"] = cupy.zeros(1024, dtype="float32"), cupy.from_dlpack
        cupy.cuda.Device().synchronize()
    stream.synchronize()
    for name, array in arrays.items():
        row(f"{name} cuda.__dlpack__(stream=-1) + delete", lambda array=array: array.__dlpack__(stream=-1))
    for name, array in arrays.items():
        for taker, take in takers.items():
            row(f"{taker}.from_dlpack({name} cuda)", lambda take=take, array=array: take(array))
    row("weir pool: allocate 4 KiB + close", lambda: pool.allocate(4096, stream=stream).close())
    if cupy:
        row("cupy.cuda.alloc: 4 KiB + delete", lambda: cupy.cuda.alloc(4096))
    if torch:
        row("torch.empty: 4 KiB + delete", lambda: torch.empty(4096, dtype=torch.uint8, device="cuda"))
    core = find("cuda.core")
    if core:
        theirs = core.Device(device.ordinal)
        theirs.set_current()
        on = theirs.create_stream()
        row("cuda.core: allocate 4 KiB + close", lambda: theirs.memory_resource.allocate(4096, stream=on).close(on))
    source, target = pool.allocate(4096, stream=stream), pool.allocate(4096, stream=stream)
    row("weir copy_to: 4 KiB", lambda: source.copy_to(target, stream=stream), calls=500, before=stream.synchronize)


def of_channel():
    here, there = weir.ipc.Channel.pair()
    stream, theirs = weir.Stream(weir.host_device()), weir.Stream(weir.host_device())
    shared = weir.make_pool(weir.make_resource(weir.host_device(), "shared", exportable=True), exportable=True)
    parcels = [(shared.allocate(4096, stream=stream), b"") for _ in range(64)]

    def receive():
        for buffer in [there.receive(stream=theirs)[0] for _ in parcels]:
            buffer.close()

    def both():
        here.send_all(parcels, stream=stream)
        receive()

    row("weir channel: 64 buffers sent, received and closed", both, calls=100)

    def alone():
        here.send_all(parcels[:1], stream=stream)
        there.receive(stream=theirs)[0].close()

    row("weir channel: one buffer sent, received and closed", alone, calls=500)


def main():
    torch, cupy = find("torch"), find("cupy")
    of_host(torch)
    of_channel()
    gpus = [device for device in weir.devices() if device.backend == "cuda"]
    if gpus:
        of_cuda(gpus[0], torch, cupy)
    else:
        print("left out: CUDA: no device")


if __name__ == "__main__":
    main()
