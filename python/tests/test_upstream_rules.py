# SPDX-License-Identifier: Apache-2.0
"""That what runs the tests of other frameworks (upstream.py) sees a test that does not go through weir, one that holds
although it is said that it cannot, and a run that dies."""

import importlib
import sys
import textwrap

import pytest
import upstream

SUITE = """
    import numpy as np
    from upstream_crossings import crossed
    import weir

    NEEDS = ("numpy",)
    FILES = ("sample/test_sample.py",)
    WAYS = ("Through",)
    APART = {"Through": {"test_apart"}}
    BY_DESIGN = {"Through": {
        "test_cannot": (AssertionError, "meant so"),
        "test_can": (AssertionError, "not meant so"),
        "test_cannot_otherwise": (ValueError, "not meant so"),
        "test_many*int8*": (AssertionError, "meant so for one type"),
    }}

    def exchange(way):
        take = np.from_dlpack
        np.from_dlpack = lambda array: take(weir.from_dlpack(crossed(array)))
"""
TESTS = """
    import os
    import unittest
    import numpy as np
    import pytest

    def through():
        return np.from_dlpack(np.arange(3)).sum()

    def test_goes_through(): assert through() == 3
    def test_goes_past(): assert np.arange(3).sum() == 3
    def test_is_wrong(): assert through() == 4
    def test_cannot(): assert through() == 4
    def test_can(): assert through() == 3
    def test_cannot_otherwise(): assert through() == 4
    def test_apart(): assert False
    def test_is_skipped(): pytest.skip("a reason")
    def test_dies():
        if "DIE" in os.environ: os._exit(3)
        through()

    @pytest.mark.parametrize("dtype", ["int8", "int16"])
    def test_many(dtype): assert through() == 3 and dtype != "int8"

    class TestMade(unittest.TestCase):
        def test_typed(self): assert through() == 3

    TestMade.test_typed_cpu_float32 = TestMade.test_typed
    del TestMade.test_typed
"""


@pytest.fixture
def sample(tmp_path, monkeypatch):
    (tmp_path / "upstream_sample.py").write_text(textwrap.dedent(SUITE))
    (tmp_path / "sample").mkdir()
    (tmp_path / "sample" / "test_sample.py").write_text(textwrap.dedent(TESTS))
    monkeypatch.syspath_prepend(tmp_path)
    yield upstream.Suite(importlib.import_module("upstream_sample"), tmp_path)
    del sys.modules["upstream_sample"]


def test_a_run_is_judged(sample):
    names = sample.names("Through")
    assert "test_goes_through" in names and "test_typed" in names and "test_apart" not in names
    outcomes = sample.run("Through", names)
    ends = {name: sorted(each["outcome"] for each in outcomes[name]) for name in outcomes}
    assert ends == {
        "test_goes_through": ["passed"], "test_goes_past": ["failed"], "test_is_wrong": ["failed"],
        "test_cannot": ["xfailed"], "test_can": ["failed"], "test_cannot_otherwise": ["failed"],
        "test_is_skipped": ["skipped"], "test_dies": ["passed"],
        "test_many": ["passed", "xfailed"], "test_typed": ["passed"],
    }
    for name in ("test_goes_through", "test_many", "test_typed"):
        upstream.judge(outcomes, name)
    for name, ending, said in (
        ("test_goes_past", pytest.fail, "without having gone through weir"),
        ("test_is_wrong", pytest.fail, "through.. == 4"),
        ("test_can", pytest.fail, "XPASS.strict.. not meant so"),
        ("test_cannot", pytest.xfail, "meant so"),
        ("test_is_skipped", pytest.skip, "a reason"),
        ("test_that_made_none", pytest.skip, "nothing was made of it"),
    ):
        with pytest.raises(ending.Exception, match=said):
            upstream.judge(outcomes, name)


def test_only_what_is_asked_for_runs(sample):
    assert set(sample.run("Through", ("test_goes_through",))) == {"test_goes_through"}


def test_a_run_that_dies_fails_all(sample):
    outcomes = sample.run("Through", ("test_goes_through", "test_dies"), DIE="1")
    for name in ("test_goes_through", "test_dies"):
        with pytest.raises(pytest.fail.Exception, match="the run"):
            upstream.judge(outcomes, name)


def test_what_is_missing_is_said(sample, tmp_path, monkeypatch):
    assert sample.missing() is None
    sample.module.NEEDS += ("no_such_package.at_all",)
    assert sample.missing() == "no_such_package.at_all is not installed"
    sample.module.FILES += ("sample/test_other.py",)
    assert "no sample/test_other.py" in upstream.Suite(sample.module, tmp_path).missing()
    monkeypatch.delenv(upstream.VARIABLE, raising=False)
    assert f"set {upstream.VARIABLE} to a folder" in upstream.Suite(sample.module).missing()


def test_names_that_were_made_of_functions():
    names = ["test_from_dlpack", "test_from_dlpack_dtype", "testJaxRoundTrip"]
    assert upstream.base_of("test_from_dlpack_cpu_float32", names) == "test_from_dlpack"
    assert upstream.base_of("test_from_dlpack_dtype_cpu_float32", names) == "test_from_dlpack_dtype"
    assert upstream.base_of("testJaxRoundTrip12", names) == "testJaxRoundTrip"
    assert upstream.base_of("test_other", names) == "test_other"
