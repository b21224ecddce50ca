# SPDX-License-Identifier: Apache-2.0
"""The plugin of pytest in the process that upstream.py starts. It begins the exchange before the tests are imported. A
test fails if it passes without having gone through weir, or if it passes and cannot by design."""

import importlib
import json
import os

import pytest
import upstream_crossings
from upstream import base_of, by_design

_module, _way, _chosen, _names, _results = json.loads(os.environ["WEIR_UPSTREAM"])
_suite = importlib.import_module(_module)


def pytest_configure(config):
    config.pluginmanager.register(_suite)  # may have hooks of its own
    _suite.exchange(_way)


def _base(item):
    return base_of(getattr(item, "originalname", None) or item.name, _names)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    mine = [item for item in items if _base(item) in _chosen]
    config.hook.pytest_deselected(items=[item for item in items if item not in mine])
    items[:] = mine
    for item in items:
        meant = by_design(item.name, _base(item), _suite.BY_DESIGN.get(_way, {}))
        if meant:
            item.add_marker(pytest.mark.xfail(strict=True, raises=meant[0], reason=meant[1]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    before = upstream_crossings.count
    result = yield
    if upstream_crossings.count == before:
        raise RuntimeError("passed without having gone through weir")  # which nothing that is by design raises
    return result


def pytest_runtest_logreport(report):
    if report.passed and report.when != "call":
        return
    outcome, why = report.outcome, ""
    if hasattr(report, "wasxfail"):
        outcome, why = "xfailed", report.wasxfail.removeprefix("reason: ")
    elif report.skipped:
        why = report.longrepr[2].removeprefix("Skipped: ")
    elif report.failed:
        why = report.longreprtext
    test = report.nodeid.rsplit("::", 1)[-1]
    line = {"base": base_of(test.split("[")[0], _names), "test": test, "outcome": outcome, "why": why}
    with open(_results, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
