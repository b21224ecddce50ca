# SPDX-License-Identifier: Apache-2.0
"""The type stubs name what the module has, no more and no less."""

import ast
from pathlib import Path

import pytest

import weir
import weir.cupy
import weir.numba
import weir.rmm
import weir.torch

FOLDER = Path(weir.__file__).parent


def names(body):
    found = {n.name for n in body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    found |= {n.target.id for n in body if isinstance(n, ast.AnnAssign)}
    found |= {t.id for n in body if isinstance(n, ast.Assign) for t in n.targets}
    return {n for n in found if not n.startswith("_") or n.endswith("__")}


MODULES = [weir._weir, weir.cuda, weir.ipc, weir.vulkan, weir.torch, weir.cupy, weir.numba, weir.rmm]


@pytest.mark.parametrize("module, stub", [(m, m.__name__.split(".")[-1] + ".pyi") for m in MODULES])
def test_stubs_match_the_module(module, stub):
    tree = ast.parse((FOLDER / stub).read_text())
    public = {n for n in vars(module) if not n.startswith("_") and n not in ("cuda", "ipc", "vulkan")}
    assert names(tree.body) - {"__version__"} == public
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        kind = getattr(module, node.name)
        wanted = names(node.body)
        if issubclass(kind, Exception):
            continue  # the fields are set on each instance
        for name in wanted - {"__buffer__"}:
            assert hasattr(kind, name), f"{node.name}.{name}"
        there = {n for n in vars(kind) if not n.startswith("_")}
        assert there <= wanted, f"{node.name} lacks {there - wanted}"
