#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print facts about the first NVIDIA GPU as KEY=VALUE lines; without one, say why on stderr and exit 1."""

import ctypes
import pathlib
import re
import sys


def call(driver, name, *arguments):
    code = getattr(driver, name)(*arguments)
    if code != 0:
        sys.exit(f"no NVIDIA GPU: {name} failed with error {code}")


def kernel_driver():
    path = pathlib.Path("/proc/driver/nvidia/version")
    found = re.search(r"\b(\d+\.\d+(\.\d+)?)\b", path.read_text()) if path.exists() else None
    return found.group(1) if found else "unknown"


def main():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        sys.exit(f"no NVIDIA GPU: {error}")
    call(driver, "cuInit", 0)
    count, device, version = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    call(driver, "cuDeviceGetCount", ctypes.byref(count))
    if count.value == 0:
        sys.exit("no NVIDIA GPU: the driver reports no device")
    call(driver, "cuDeviceGet", ctypes.byref(device), 0)
    name = ctypes.create_string_buffer(256)
    call(driver, "cuDeviceGetName", name, len(name), device)
    call(driver, "cuDriverGetVersion", ctypes.byref(version))
    print(f"gpu={name.value.decode()}")
    print(f"gpus={count.value}")
    print(f"driver={kernel_driver()}")
    print(f"cuda={version.value // 1000}.{version.value % 1000 // 10}")


if __name__ == "__main__":
    main()
