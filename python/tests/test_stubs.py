# SPDX-License-Identifier: Apache-2.0
"""The type stubs name what the module has, no more and no less."""

import ast
import inspect
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


def functions(body, of, prefix=""):
    """The functions of a stub that have one form and are the module's own, and what they are there."""
    named = [node.name for node in body if isinstance(node, ast.FunctionDef)]
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from functions(node.body, getattr(of, node.name), f"{prefix}{node.name}.")
        if isinstance(node, ast.FunctionDef) and named.count(node.name) == 1:
            there = inspect.getattr_static(of, node.name, None)
            there = getattr(there, "__func__", there)
            if len(getattr(there, "__nb_signature__", [there])) == 1:
                yield prefix + node.name, ast.get_docstring(node), there


def documentation(thing):
    """Without the signature, which nanobind puts in front."""
    described = getattr(thing, "__nb_signature__", None)
    return described[0][1] if described else inspect.getdoc(thing)


@pytest.mark.parametrize("module, stub", [(m, m.__name__.split(".")[-1] + ".pyi") for m in MODULES])
def test_stubs_say_what_the_module_says(module, stub):
    tree = ast.parse((FOLDER / stub).read_text())
    both = [(name, said, documentation(there)) for name, said, there in functions(tree.body, module)]
    assert [name for name, said, there in both if said and there and said.split() != there.split()] == []
