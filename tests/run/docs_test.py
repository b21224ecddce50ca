#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The API reference builds without a warning, has every public name, and its links lead somewhere.

docs_test.py [RESULT]: RESULT is a file for the reason, if Doxygen is not installed.
"""

import collections
import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
from xml.etree import ElementTree

import declarations

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
HEADERS = sorted((INCLUDE / "weir").rglob("*.hpp"))
MISSING = "Doxygen is not installed (apt-get install doxygen)"


class Page(html.parser.HTMLParser):
    """Where one page can be entered, and where its links lead."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for key, value in attributes:
            if key in ("id", "name") and value:
                self.anchors.add(value)
            if key in ("href", "src") and value:
                self.links.append(value)


# Doxygen's own navigation, which is not complete in any version: letters of an index, summaries of the same page.
NAVIGATION = re.compile(r"#(index_.+|nested-classes|define-members)$")


def dead_links(folder):
    """(page, link) of links to nothing."""
    pages = {path.resolve(): Page(path) for path in folder.glob("**/*.html")}
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or NAVIGATION.search(link):
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield path.name, link
            elif parts.fragment and target in pages:
                if urllib.parse.unquote(parts.fragment) not in pages[target].anchors:
                    yield path.name, link


def is_shown(element):
    return element.get("prot") != "private" or element.get("virt", "non-virtual") != "non-virtual"


def is_plain(element):
    """Whether this is a function whose name and specifier say everything."""
    arguments = "".join((element.findtext("argsstring") or "").split())
    return arguments.endswith("=delete") or (arguments.startswith("()") and arguments.endswith("=default"))


def text_of(element):
    return "".join("".join(part.itertext()) for part in element.findall("*")
                   if part.tag in ("briefdescription", "detaileddescription")).strip()


class Reference:
    """What Doxygen wrote, in one run for all tests."""

    def __init__(self, folder):
        self.html = folder / "html"
        more = f"OUTPUT_DIRECTORY = {folder}\nGENERATE_XML = YES\nXML_PROGRAMLISTING = NO\n"
        done = subprocess.run(["doxygen", "-"], input=(ROOT / "docs" / "api" / "Doxyfile").read_text() + more, cwd=ROOT,
                              capture_output=True, text=True)
        self.status, self.log = done.returncode, done.stderr
        found = (ElementTree.parse(path).getroot().find("compounddef") for path in (folder / "xml").glob("*.xml"))
        self.compounds = [compound for compound in found if compound is not None]

    def of_kind(self, *kinds):
        return [compound for compound in self.compounds if compound.get("kind") in kinds and is_shown(compound)]

    def members(self):
        """(scope, name, element) of functions, variables, types' aliases, enumerations and their values."""
        for compound in self.of_kind("class", "struct", "namespace"):
            scope = compound.findtext("compoundname")
            for member in compound.iter("memberdef"):
                if not is_shown(member) or (member.findtext("type") or "").endswith("class"):  # "friend class"
                    continue
                yield scope, member.findtext("name"), member
                for value in member.findall("enumvalue"):
                    yield f"{scope}::{member.findtext('name')}", value.findtext("name"), value


def hidden(scope):
    return "detail" in scope.split("::")


@unittest.skipUnless(shutil.which("doxygen"), MISSING)
class ApiReference(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.reference = Reference(folder)

    def test_no_warning(self):
        self.assertEqual(self.reference.log, "")
        self.assertEqual(self.reference.status, 0)

    def test_every_header_has_a_page(self):
        pages = {}
        for file in self.reference.of_kind("file"):
            path = file.find("location").get("file")
            if path.endswith(".hpp"):
                pages[path] = file
        expected = {str(header.relative_to(INCLUDE)) for header in HEADERS}
        self.assertEqual({re.sub(r"^include/", "", path) for path in pages}, expected)
        for path, file in pages.items():
            self.assertNotEqual("".join(file.find("briefdescription").itertext()).strip(), "", f"{path} says nothing")
            self.assertTrue((self.reference.html / (file.get("id") + ".html")).is_file(), path)

    def test_every_name_is_there(self):
        declared, shown = collections.defaultdict(set), collections.defaultdict(set)
        for header in HEADERS:
            for scope, names in declarations.names_of(header.read_text()).items():
                if not hidden(scope):
                    declared[scope] |= names
        for compound in self.reference.of_kind("class", "struct"):
            shown[compound.findtext("compoundname")] |= set()
        for concept in self.reference.of_kind("concept"):  # Doxygen 1.9.1 takes it for a variable
            scope, name = concept.findtext("compoundname").rsplit("::", 1)
            shown[scope].add(name)
        for scope, name, _ in self.reference.members():
            shown[scope].add(name)
        self.assertEqual(set(shown), set(declared))
        for scope, names in declared.items():
            inherited = {"MemoryResource"} - {scope.split("::")[-1]}  # a constructor, by a using-declaration
            self.assertEqual(shown[scope] - inherited, names, scope)
        self.assertIn("copy_to", declared["weir::Buffer"])  # the listing sees something

    def test_every_name_is_documented(self):
        silent = []
        for scope, name, element in self.reference.members():
            if not (is_plain(element) or name.startswith("~") or text_of(element)):
                silent.append(f"{scope}::{name}")
        compounds = self.reference.of_kind("class", "struct", "namespace", "concept")
        silent += [compound.findtext("compoundname") for compound in compounds if not text_of(compound)]
        self.assertEqual(silent, [])

    def test_links_lead_somewhere(self):
        self.assertEqual(list(dead_links(self.reference.html)), [])


def main():
    if len(sys.argv) > 1:
        result = pathlib.Path(sys.argv[1])
        result.unlink(missing_ok=True)
        if not shutil.which("doxygen"):
            result.parent.mkdir(parents=True, exist_ok=True)
            result.write_text(f'<testsuite><testcase name="ApiReference"><skipped message="{MISSING}"/></testcase>'
                              "</testsuite>")
    if not shutil.which("doxygen"):
        print(f"skipped: {MISSING}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])


if __name__ == "__main__":
    main()
