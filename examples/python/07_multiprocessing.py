# SPDX-License-Identifier: Apache-2.0
"""Workers of a process pool write into arrays of this process, and a producer sends arrays of its own, without a copy."""

import concurrent.futures
import multiprocessing

import numpy as np

import weir


def make_pool(device):
    return weir.make_pool(device, exportable=True)


def square(part):
    array = np.from_dlpack(part, device="cpu")  # the memory of the process that called
    array *= array
    return float(array.sum())


def produce(queue, device, count):
    stream, pool = weir.Stream(device), make_pool(device)
    for number in range(count):
        tensor = pool.allocate_tensor((2, 3), "float32", stream=stream)
        tensor.fill(number, stream=stream)
        queue.put(tensor)  # the message says when the fill is done


def main():
    device = weir.host_device()
    stream = weir.Stream(device)
    spawn = multiprocessing.get_context("spawn")

    numbers = make_pool(device).allocate_tensor(1000, "float64", stream=stream)
    stream.synchronize()
    whole = np.from_dlpack(numbers)
    whole[:] = np.arange(1000)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=spawn) as executor:
        sums = list(executor.map(square, [numbers[begin : begin + 250] for begin in range(0, 1000, 250)]))
    assert sum(sums) == whole.sum() == sum(n * n for n in range(1000))
    print("the workers squared 1000 numbers where they are:", whole[:5], "...")

    queue = spawn.Queue()
    producer = spawn.Process(target=produce, args=(queue, device, 3))
    producer.start()
    for number in range(3):
        tensor = queue.get(timeout=60)
        assert (np.from_dlpack(tensor) == number).all()
        print("received", tensor)
    producer.join()


if __name__ == "__main__":
    main()
