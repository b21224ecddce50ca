# SPDX-License-Identifier: Apache-2.0
"""PyTorch allocates through a pool of weir with a limit, and hears of it when the limit is reached."""

import sys

import weir
import weir.torch

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed")
    sys.exit()
if not torch.cuda.is_available() or not any(device.backend == "cuda" for device in weir.devices()):
    print("skipped: PyTorch or weir finds no CUDA device")
    sys.exit()

pool = weir.make_pool(weir.make_resource(weir.device("cuda:0"), "vmm"))
counted = weir.make_statistics(weir.make_limiting(pool, 512 << 20))
allocator = weir.torch.make_allocator(counted)

with allocator.use():
    weights = torch.randn(4096, 4096, device="cuda")
    result = weights @ weights
    try:
        torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    except RuntimeError as error:
        print("PyTorch:", str(error).splitlines()[0])
        print("weir:", allocator.last_failure)

print("at most", counted.stats()["peak_in_use"] >> 20, "MiB, of which", allocator.live, "blocks are still PyTorch's")
