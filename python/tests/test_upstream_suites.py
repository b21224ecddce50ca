# SPDX-License-Identifier: Apache-2.0
"""The tests of PyTorch, CuPy, JAX and cuda.core about the exchange of tensors, over weir: upstream.py. One test here
stands for one function of theirs and all that is made of it."""

import importlib
import os

import pytest
import upstream

SUITES = {
    name: upstream.Suite(importlib.import_module(f"upstream_{name}"))
    for name in ("torch", "cupy", "jax", "cuda_core_memory", "cuda_core_views")
}


def _functions():
    for suite, what in SUITES.items():
        missing = what.missing()
        if missing:
            yield pytest.param(suite, "", "", marks=pytest.mark.skip(reason=missing), id=suite)
            continue
        for way in what.module.WAYS:
            for name in what.names(way):
                yield pytest.param(suite, way, name, id=f"{suite}-{way}-{name}")


@pytest.mark.parametrize(("suite", "way", "name"), list(_functions()))
def test_upstream(request, suite, way, name):
    if getattr(SUITES[suite].module, "NEEDS_CUDA", False):
        request.getfixturevalue("cuda")
        if os.environ.get("WEIR_CUDA_LIBRARY"):
            pytest.skip(f"{SUITES[suite].module.NEEDS[0]} knows only NVIDIA's driver")
    here = [item.callspec.params for item in request.session.items if getattr(item, "function", None) is test_upstream]
    together = tuple(each["name"] for each in here if (each["suite"], each["way"]) == (suite, way))
    upstream.judge(SUITES[suite].run(way, together), name)


def test_what_is_listed_is_there():
    """But for what a way does not touch: these lists are for several versions."""
    present = [suite for suite in SUITES.values() if not suite.missing()]
    if not present:
        pytest.skip(SUITES["torch"].missing())
    for suite in present:
        written = upstream.written_in(suite.files)
        for lists in (suite.module.BY_DESIGN, getattr(suite.module, "ONLY", {})):
            assert set(lists) <= set(suite.module.WAYS)
            for key in {key for names in lists.values() for key in names}:
                beginning = key.partition("*")[0].partition("?")[0]
                assert key in written or (beginning != key and any(n.startswith(beginning) for n in written)), key
