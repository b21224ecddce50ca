#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a shared libweir exports: everything that the public headers mark with WEIR_API, and nothing else.

exports_test.py NM CXXFILT LIBRARY FILE: FILE lists objects, one a line, that include public headers alone.
"""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NM, FILT, LIBRARY, OBJECTS = "nm", "c++filt", "", []

# Of the standard library, compiled into whatever uses it. Their visibility is the standard library's.
FOREIGN = re.compile(r"^(?:\w[\w ]* for )?(?:[\w:<>,& ]* )??(?:std|__gnu_cxx)::")

# Namespaces of those programs themselves.
OWN = re.compile(r"4weir(?:4test|3cli|5bench|6python|7PrintTo)")

# These put their own work on streams, as backends do.
INSIDE = ("conformance/debug_test.cpp.o", "conformance/rejected_test.cpp.o")


def symbols(options, *files):
    """Mangled names."""
    text = subprocess.run([NM, "-P", *options, *files], check=True, capture_output=True, text=True).stdout
    return {line.split()[0] for line in text.splitlines() if len(line.split()) > 1}


def demangled(names):
    text = subprocess.run([FILT], input="\n".join(names), check=True, capture_output=True, text=True).stdout
    return dict(zip(names, text.splitlines()))


def marked(text):
    """Names of the classes and functions that a header marks with WEIR_API."""
    code = re.sub(r"//.*", "", text)
    yield from re.findall(r"\b(?:class|struct) WEIR_API (\w+)", code)
    yield from re.findall(r"(?<!class )(?<!struct )\bWEIR_API\b[^;{(]*?(\w+)\(", code)


def marked_by_headers():
    names = set()
    for header in (ROOT / "include").rglob("*.hpp"):
        if header.name != "export.hpp":
            names.update(marked(header.read_text()))
    return names


def owners(name):
    """The names in weir of a demangled symbol that WEIR_API could stand at: of "weir::cuda::Allocator::live() const" these
    are cuda, Allocator, live."""
    name = re.sub(r"^(?:typeinfo name|typeinfo|vtable|VTT|guard variable|non-virtual thunk) (?:for|to) ", "", name)
    name = name.replace("[abi:cxx11]", "")
    while re.search(r"<[^<>]*>", name):
        name = re.sub(r"<[^<>]*>", "", name)
    qualified = re.search(r"\bweir(?:::~?\w+)+", name.split("(")[0])
    return set(qualified.group().replace("~", "").split("::")[1:]) if qualified else set()


class Marks(unittest.TestCase):
    def test_names_of_classes_and_functions(self):
        self.assertEqual(list(marked("class WEIR_API Pool : public MemoryResource {")), ["Pool"])
        self.assertEqual(list(marked("struct WEIR_API Uuid {")), ["Uuid"])
        self.assertEqual(list(marked("class WEIR_API PmrResource final : public std::pmr::memory_resource {")),
                         ["PmrResource"])
        self.assertEqual(list(marked("[[nodiscard]] WEIR_API std::vector<Device> devices();")), ["devices"])
        self.assertEqual(list(marked("// WEIR_API what\nWEIR_API void report(const Failure& f) noexcept;")), ["report"])

    def test_names_of_symbols(self):
        self.assertEqual(owners("weir::cuda::Allocator::live() const"), {"cuda", "Allocator", "live"})
        self.assertEqual(owners("vtable for weir::Pool"), {"Pool"})
        self.assertEqual(owners("weir::error[abi:cxx11](weir::Buffer const&)"), {"error"})
        self.assertEqual(owners("weir::Tensor::~Tensor()"), {"Tensor"})
        self.assertEqual(owners("std::vector<weir::Buffer>::push_back(weir::Buffer&&)"), set())


class Exports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.exported = symbols(["-D", "--defined-only"], LIBRARY)
        cls.names = demangled(sorted(cls.exported))
        cls.marked = marked_by_headers()

    def test_nothing_leaves_but_what_headers_mark(self):
        stray = [name for name in self.names.values() if not FOREIGN.match(name) and not owners(name) & self.marked]
        self.assertEqual(stray, [])

    def test_all_that_headers_mark_leaves(self):
        missing = self.marked - {owner for name in self.names.values() for owner in owners(name)}
        self.assertEqual(missing, set())

    def test_programs_find_what_they_use(self):
        self.assertGreater(len(OBJECTS), 20)
        needed = {name for name in symbols(["--undefined-only"], *OBJECTS) if "4weir" in name and not OWN.search(name)}
        needed -= symbols(["--defined-only"], *OBJECTS)
        self.assertGreater(len(needed), 100)
        self.assertEqual(sorted(demangled(sorted(needed - self.exported)).values()), [])


if __name__ == "__main__":
    NM, FILT, LIBRARY, listed = sys.argv[1:]
    OBJECTS = [name for name in pathlib.Path(listed).read_text().split() if not name.endswith(INSIDE)]
    unittest.main(argv=sys.argv[:1])
