#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the map in docs/architecture.md with the tree, and every include with the map."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "architecture.md"
UMBRELLA = {"weir", "version"}  # include everything, or come from CMake


class Room:
    def __init__(self, name, stands_on, headers):
        self.name, self.stands_on, self.headers = name, stands_on, headers


def rooms_of(text):
    """The rows "| `src/<room>/` | subject | stands on | public headers |", in order."""
    row = re.compile(r"^\| `src/(\w+)/` \| [^|]+ \|([^|]*)\|([^|]*)\|$", re.M)
    return [Room(name, on.split(), re.findall(r"`([^`]+)`", headers)) for name, on, headers in row.findall(text)]


def includes_of(text):
    return re.findall(r'^#include ["<]([\w/]+\.hpp)[">]', text, re.M)


def room_of_header(name, rooms):
    """That of a public header such as "spi/block", or None."""
    for room in rooms:
        if name in room.headers or f"{name.split('/')[0]}/*" in room.headers:
            return room
    return None


def target(include, rooms):
    """The room that an include names; None for what no room has."""
    if include.startswith("weir/"):
        return room_of_header(include[len("weir/"):-len(".hpp")], rooms)
    return next((room for room in rooms if include.startswith(room.name + "/")), None)


def wrong_includes(room, text, rooms):
    """Those that lead from `room` to one that it does not stand on."""
    for include in includes_of(text):
        to = target(include, rooms)
        if to and to is not room and to.name not in room.stands_on:
            yield include


class Rooms(unittest.TestCase):
    def setUp(self):
        self.text = DOCUMENT.read_text()
        self.rooms = rooms_of(self.text)

    def test_the_map_is_the_tree(self):
        folders = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
        self.assertEqual({room.name for room in self.rooms}, folders)
        loose = [path.name for path in (ROOT / "src").iterdir() if path.is_file()]
        self.assertEqual(loose, ["CMakeLists.txt"])

    def test_every_path_of_the_document_exists(self):
        tops = "|".join(sorted(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")))
        for path in re.findall(rf"`((?:{tops})/[^`*]*)`", self.text):
            self.assertTrue((ROOT / path).exists() or path.startswith("build/"), f"docs/architecture.md names {path}")

    def test_every_folder_is_on_the_map(self):
        for path in ROOT.iterdir():
            if path.is_dir() and not path.name.startswith(".") and path.name not in ("build", "docs"):
                self.assertIn(f"`{path.name}/", self.text, f"docs/architecture.md does not name {path.name}/")

    def test_every_public_header_has_a_room(self):
        backends = {path.name for path in (ROOT / "backends").iterdir() if path.is_dir()}
        for path in (ROOT / "include" / "weir").rglob("*.hpp"):
            name = str(path.relative_to(ROOT / "include" / "weir").with_suffix(""))
            if name in UMBRELLA | backends:
                continue
            owners = [room for room in self.rooms if room_of_header(name, [room])]
            self.assertEqual(len(owners), 1, f"{name}.hpp")
        for room in self.rooms:
            for name in room.headers:
                self.assertTrue(list((ROOT / "include" / "weir").glob(f"{name}.hpp")), f"{room.name}: {name}.hpp")

    def test_arrows_point_down(self):
        above = []
        for room in self.rooms:
            self.assertLessEqual(set(room.stands_on), set(above), f"{room.name} stands on what is not above it")
            above.append(room.name)

    def test_every_include_follows_an_arrow(self):
        for room in self.rooms:
            headers = [ROOT / "include" / "weir" / f"{name}.hpp" for name in room.headers if "*" not in name]
            for name in room.headers:
                if "*" in name:
                    headers += (ROOT / "include" / "weir").glob(f"{name}.hpp")
            for path in sorted((ROOT / "src" / room.name).rglob("*.[ch]pp")) + headers:
                wrong = list(wrong_includes(room, path.read_text(), self.rooms))
                self.assertEqual(wrong, [], f"{path.relative_to(ROOT)}: {room.name} does not stand on that")

    def test_units_are_where_their_sources_are(self):
        folders = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*") if path.is_dir()}
        for path in (ROOT / "tests" / "unit").rglob("*"):
            if path.is_dir():
                self.assertIn(str(path.relative_to(ROOT / "tests" / "unit")), folders | {"support"})

    # The rules themselves, over a map and files that break them.

    def test_an_arrow_that_points_up_is_seen(self):
        rooms = rooms_of("| `src/low/` | a | | `low` `spi/*` |\n| `src/high/` | b | low | `high` |\n")
        low, high = rooms
        self.assertEqual(list(wrong_includes(low, '#include "high/x.hpp"\n#include "low/y.hpp"\n', rooms)), ["high/x.hpp"])
        self.assertEqual(list(wrong_includes(low, '#include "weir/high.hpp"\n#include <vector>\n', rooms)), ["weir/high.hpp"])
        self.assertEqual(list(wrong_includes(high, '#include "low/x.hpp"\n#include "weir/spi/y.hpp"\n', rooms)), [])


if __name__ == "__main__":
    unittest.main()
