#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follow the links of all documents, look for the files that they name, and look up the names of weir that
docs/coming-from.md tells users of other libraries."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ROOT / "docs" / "coming-from.md"
# Names of the columns "here" that are not weir's, and words of the languages.
FOREIGN = {"std", "chrono", "true", "True"}
IGNORED = {"build", ".git", "node_modules"}
NOT_HERE = {"include/cccl", "include/weir/x.hpp"}  # of others, and of a backend that is yet to be written
HISTORY = ("CHANGELOG.md", "docs/adr/")  # may name what there is no more


def documents():
    for path in sorted(ROOT.rglob("*.md")):
        if not IGNORED & set(path.relative_to(ROOT).parts):
            yield path


def prose_of(text):
    """The text with its blocks and spans of code blanked: no link is in those."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", lambda span: "`" * len(span[0]), text)


def links_of(text):
    """Targets of [words](target), also over the end of a line, and of [words]: target."""
    text = prose_of(text)
    return re.findall(r"\]\(([^()\s]+)\)", text) + re.findall(r"^\[[^\]]+\]: (\S+)$", text, re.M)


def anchors_of(text):
    """What GitHub calls the headings of a document."""
    found = {}
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    for title in re.findall(r"^#{1,6} (.+)$", text, re.M):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()
        name = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        number = found.get(name)
        found[name] = 0 if number is None else number + 1
        if number is not None:
            found[f"{name}-{number + 1}"] = 0
    return set(found)


def wrong_links(path, text):
    for target in links_of(text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        to = (path.parent / file).resolve() if file else path
        if not to.exists():
            yield f"{target}: there is no such file"
        elif not to.is_relative_to(ROOT):
            yield f"{target} leads out of the project"
        elif anchor and to.suffix == ".md" and anchor not in anchors_of(text if to == path else to.read_text()):
            yield f"{target}: {to.name} has no such heading"


def paths_of(text):
    """Files and folders of this project that spans of code name; not patterns, which have * or < or …"""
    tops = "|".join(sorted(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")))
    return [name for name in re.findall(rf"`((?:{tops})/[^`\s*<…]*)`", text) if not name.startswith("build/")]


def sources():
    """(path, text) of the public headers and of the Python package's types, without comments and texts."""
    for path in sorted((ROOT / "include" / "weir").rglob("*.hpp")):
        if "spi" not in path.relative_to(ROOT).parts:
            yield path, re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", " ", path.read_text(), flags=re.S)
    for path in sorted((ROOT / "python" / "weir").glob("*.py*")):
        yield path, re.sub(r'""".*?"""|#[^\n]*', " ", path.read_text(), flags=re.S)


class Declared:
    """The words of all sources, and for each class and namespace those of the files that declare it."""

    def __init__(self, files):
        self.words, self.scopes = set(), {}
        for path, text in files:
            words = set(re.findall(r"[A-Za-z_]\w*", text))
            python = path.suffix in (".py", ".pyi")
            names = re.findall(r"\b(?:class|struct|namespace weir::)\s*(?:WEIR_API )?(\w+)", text) + ([path.stem] if python else [])
            self.words |= words
            for name in names:
                self.scopes.setdefault((name, "." if python else "::"), set()).update(words)

    def unknown(self, code):
        """The names in a piece of code that weir does not have. What stands in quotes is a kind of memory or a device."""
        quoted = " ".join(re.findall(r'"([^"]+)"', code))
        plain = re.sub(r'"[^"]*"', " ", code)
        wrong = set(re.findall(r"[A-Za-z_]\w*", plain + " " + quoted)) - self.words - FOREIGN
        for scope, mark, name in re.findall(r"\b(\w+)(::|\.)(\w+)", plain):
            if scope not in FOREIGN and name not in self.scopes.get((scope, mark), ()):
                wrong.add(f"{scope}{mark}{name}")
        return sorted(wrong)


def told(text):
    """(line, code) of each span in the column "here" of the tables that have one."""
    column = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else None
        if not cells:
            column = None
        elif column is None:
            column = cells.index("here") if "here" in cells else len(cells)
        elif column < len(cells):
            yield from ((line, code) for code in re.findall(r"`([^`]+)`", cells[column]))


class Documents(unittest.TestCase):
    def test_links_lead_somewhere(self):
        wrong = [f"{path.relative_to(ROOT)}: {what}" for path in documents() for what in wrong_links(path, path.read_text())]
        self.assertEqual("\n".join(wrong), "")

    def test_paths_exist(self):
        wrong = [f"{path.relative_to(ROOT)}: there is no {name}" for path in documents()
                 if not str(path.relative_to(ROOT)).startswith(HISTORY) for name in paths_of(path.read_text())
                 if name not in NOT_HERE and not (ROOT / name).exists()]
        self.assertEqual("\n".join(wrong), "")

    def test_names_exist(self):
        declared = Declared(sources())
        spans = list(told(NAMES.read_text()))
        self.assertGreater(len(spans), 100)
        wrong = [f"{', '.join(declared.unknown(code))}: {line}" for line, code in spans if declared.unknown(code)]
        self.assertEqual("\n".join(wrong), "")

    # The rules themselves.

    def test_a_dead_link_is_seen(self):
        path = ROOT / "docs" / "contract.md"
        text = "# One\n## Two `x`: y\n## One\n[a](#two-x-y) [b](#one-1)\n[c](../README.md) `[d](none.md)`\n[e](https://none)\n"
        self.assertEqual(list(wrong_links(path, text)), [])
        self.assertEqual(list(wrong_links(path, "# One\n[a](#two) [two\nwords](none.md) [c](descriptor.md#none)")),
                         ["#two: contract.md has no such heading", "none.md: there is no such file",
                          "descriptor.md#none: descriptor.md has no such heading"])

    def test_paths_are_seen(self):
        self.assertEqual(paths_of("`src/none.cpp`, `tests/*.cpp`, `docs/adr/`, `none/src`, `build/x`"), ["src/none.cpp", "docs/adr/"])

    def test_an_unknown_name_is_seen(self):
        declared = Declared([(pathlib.Path("a.hpp"), "namespace weir::vulkan { class Pool { int limit; }; make_pool(device); }"),
                             (pathlib.Path("b.pyi"), "class Buffer:\n    def close(self): ...")])
        self.assertEqual(declared.unknown('vulkan::make_pool(device("vulkan:0"), {.limit = 5})'), [])
        self.assertEqual(declared.unknown("Buffer.close()"), [])
        self.assertEqual(declared.unknown('make_pond(device("metal:0"))'), ["make_pond", "metal"])
        self.assertEqual(declared.unknown("cuda::make_pool()"), ["cuda", "cuda::make_pool"])
        self.assertEqual(declared.unknown("Pool::close()"), ["Pool::close"])
        rows = "| x | here |\n|---|---|\n| `other()` | `a(b)`, `c` |\n\n| y | z |\n|---|---|\n| `d` | `e` |\n"
        self.assertEqual([code for _, code in told(rows)], ["a(b)", "c"])


if __name__ == "__main__":
    unittest.main()
