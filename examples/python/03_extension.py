# SPDX-License-Identifier: Apache-2.0
"""NumPy's arrays through an extension module in C++ (03_extension.cpp) that uses weir."""

import extension
import numpy as np

import weir

array = np.arange(6, dtype="float32").reshape(2, 3)
product = np.from_dlpack(weir.from_dlpack(extension.scaled(array, 3.0)))
assert product.shape == (2, 3) and (product == 3 * array).all()

# Tensors of weir go there as well: `extension` has a copy of the library of its own, and DLPack is all they share.
again = weir.from_dlpack(extension.scaled(weir.from_dlpack(product), 0.5))
assert (np.from_dlpack(again) == 1.5 * array).all()

# What the module cannot take is an exception of Python.
for wrong in (array.astype("float64"), array[:, ::2], "text"):
    try:
        extension.scaled(wrong, 1.0)
        raise SystemExit("this should have been refused")
    except (ValueError, AttributeError) as refused:
        print(f"{type(refused).__name__}: {refused}")
