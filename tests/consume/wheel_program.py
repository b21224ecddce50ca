# SPDX-License-Identifier: Apache-2.0
"""A user of the installed package, in an environment that has it and NumPy and nothing else of this project.

wheel_program.py VERSION BACKEND…: what it should be, and the backends that it should have.
"""

import importlib.metadata
import pathlib
import subprocess
import sys

import numpy as np

import weir

version, *backends = sys.argv[1:]
assert pathlib.Path(weir.__file__).is_relative_to(sys.prefix), weir.__file__
assert weir.__version__ == version == importlib.metadata.version("weir"), weir.__version__

metadata = importlib.metadata.metadata("weir")
assert metadata["License-Expression"] == "Apache-2.0", metadata.items()
(licence,) = (file for file in importlib.metadata.files("weir") if file.name == "LICENSE")
assert "Apache License" in licence.read_text(), licence
assert pathlib.Path(weir.__file__).with_name("py.typed").exists()

built = {backend.name for backend in weir.backends() if not backend.unavailable_because.startswith("not built")}
assert built == set(backends), (built, backends)

stream = weir.Stream(weir.host_device())
buffer = weir.make_resource(weir.host_device()).allocate(4096, stream=stream)
buffer.fill(0x01020304, stream=stream, width=4)
array = np.from_dlpack(buffer.view("uint32", (32, 32)))
assert array.ctypes.data == buffer.host_data
assert (array == 0x01020304).all()
array[3, 5] = 7
copy = buffer.copy_to(None, stream=stream)
buffer.close()
assert np.from_dlpack(copy.view("uint32"))[3 * 32 + 5] == 7
try:
    buffer.fill(0, stream=stream)
    raise SystemExit("a closed buffer was filled")
except weir.Error as error:
    assert error.condition == weir.Errc.closed, error

program = pathlib.Path(sys.executable).with_name("weir")
for command in ([program], [sys.executable, "-m", "weir"]):
    printed = subprocess.run([*command, "--version"], check=True, capture_output=True, text=True).stdout
    assert printed == f"weir {version}\n", printed
    printed = subprocess.run([*command, "demo"], check=True, capture_output=True, text=True).stdout
    assert "every byte was right" in printed, printed
