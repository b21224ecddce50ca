#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which public functions and error branches no test has reached, against the reasons that a document gives.

    coverage.py --llvm DIR BUILD_DIR REASONS.md

BUILD_DIR was built with -fprofile-instr-generate -fcoverage-mapping; its profiles/ holds what the tests wrote. The
list goes to BUILD_DIR/never.md. Exit 1 when an entry has no reason, or a reason has no entry any more. A reason is a
row of the table below the line "<!-- never reached -->": where, what, why, with * in the first two.
"""

import argparse
import bisect
import dataclasses
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARK = "<!-- never reached -->"
# Public: the namespaces that include/ declares. Lambdas and hidden namespaces are parts of something that is public.
HIDDEN = ("(anonymous namespace)", "weir::detail::", "$_", "{lambda", "'lambda")
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


@dataclasses.dataclass(frozen=True, order=True)
class Entry:
    where: str
    line: int
    what: str


def without_comments(text, strings=True):
    """The text with comments (and strings) blanked; lines and columns stay."""
    def blank(match):
        token = match.group()
        if token.startswith("/") or not strings:
            return re.sub(r"[^\n]", " ", token)
        return token
    return TOKEN.sub(blank, text)


# ---- what the tests reached -----------------------------------------------------------------------------------------


def export(llvm, build):
    """llvm-cov's JSON of the library, and of the tests for what they alone instantiate of its headers."""
    profiles = sorted((build / "profiles").glob("*.profraw"))
    if not profiles:
        sys.exit(f"coverage: no profiles in {build}/profiles: no test ran")
    merged = build / "profiles" / "all.profdata"
    subprocess.run([llvm / "llvm-profdata", "merge", "-sparse", "-o", merged, *profiles], check=True)
    # Programs, not objects: in those the linker left out what others have. plugin_outside holds all of the library.
    programs = [build / "tests" / "plugin_outside",
                *sorted(path for path in (build / "tests").glob("weir_*_tests") if path.is_file())]
    first, *others = programs
    command = [llvm / "llvm-cov", "export", "-format=text", f"-instr-profile={merged}", first,
               *(argument for path in others for argument in ("-object", path))]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"coverage: llvm-cov: {done.stderr.decode().strip()}")
    return json.loads(done.stdout)["data"][0]


def relative(path):
    path = pathlib.Path(os.path.normpath(path))  # a compiler cache makes it "…/build/coverage/../../src/…"
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""


def is_library(path):
    return path.startswith(("src/", "include/", "backends/")) and "/tests/" not in path


def times_reached(segments, line, column):
    """Executions of the innermost region around a place; None where there is no code."""
    index = bisect.bisect_right(segments, [line, column, float("inf")]) - 1
    if index < 0:
        return None
    _, _, count, has_count, *_ = segments[index]
    return count if has_count else None


# ---- public functions -----------------------------------------------------------------------------------------------


def declared():
    """name → header of everything in include/ that looks like a function."""
    names = {}
    for header in sorted((ROOT / "include").rglob("*.hpp")):
        text = without_comments(header.read_text(), strings=False)
        for match in re.finditer(r"(operator\W{1,2}|~?\w+)\s*\(", text):
            names.setdefault(match.group(1), relative(header))
    return names


def demangle(llvm, names):
    printed = subprocess.run([llvm / "llvm-cxxfilt"], input="\n".join(names), check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    return printed.splitlines()


def base_name(signature):
    """`name` of "ns::Class::name<…>(…) const"."""
    text = re.sub(r"\[abi:\w+\]", "", signature)
    while re.search(r"<[^<>]*>", text.replace("operator<", "operator")):
        text = re.sub(r"<[^<>]*>", "", text)
    return text.split("(")[0].rsplit("::", 1)[-1].split(" ")[-1]


def shortened(signature):
    text = signature
    for long, short in ((r"std::basic_string_view<char, std::char_traits<char>\s*>", "std::string_view"),
                        (r"std::(__cxx11::)?basic_string<char, std::char_traits<char>, std::allocator<char>\s*>",
                         "std::string"), (r", std::allocator<[^<>]*>\s*", ""), (r", 18446744073709551615ul", ""),
                        (r"\b(unsigned long|std::size_t)\b", "size_t"), (r"std::ratio<1l, (\d+)l>", r"1/\1")):
        text = re.sub(long, short, text)
    return text


def public_functions(data, llvm):
    """signature → (file, line, executions) of what include/ declares and the library or a test has code for."""
    names = declared()
    functions = data["functions"]
    mangled = [function["name"].rsplit(":", 1)[-1] for function in functions]
    table = {}
    for function, signature in zip(functions, demangle(llvm, mangled)):
        path = relative(function["filenames"][0])
        if not is_library(path) or not signature.startswith("weir::") and " weir::" not in signature:
            continue
        if any(part in signature for part in HIDDEN):
            continue
        if not path.startswith("include/") and base_name(signature) not in names:
            continue
        if path.startswith("backends/") and not re.search(r"weir::(host|cuda|vulkan)::\w+\(", signature):
            continue  # overrides of the seam, which has its own entries
        before = table.get(signature, (path, 0, 0))
        table[signature] = (path, function["regions"][0][0], before[2] + function["count"])
    return table


def never_called(data, llvm):
    return [Entry(path, line, shortened(signature))
            for signature, (path, line, count) in public_functions(data, llvm).items() if count == 0]


# ---- error branches -------------------------------------------------------------------------------------------------


def statement_at(text, start):
    """From `start` to its semicolon."""
    depth = 0
    for index in range(start, len(text)):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(text[index], 0)
        if text[index] == ";" and depth <= 0:
            return text[start:index]
    return text[start:]


def error_statements(path):
    """(line, column, what) of each throw of weir's errors, each call of a function that only throws, each report."""
    source = without_comments((ROOT / path).read_text())
    blank = without_comments(source, strings=False)
    nearby = [without_comments(header.read_text(), strings=False) for header in (ROOT / path).parent.glob("*.hpp")]
    throwers = {name for text in [blank, *nearby] for name in re.findall(r"\[\[noreturn\]\][\w\s]*?\bvoid (\w+)\(", text)}
    calls = "|".join(sorted(throwers) + ["report"])
    for match in re.finditer(rf"\bthrow (?:weir::)?(?:Error|OutOfMemory)\b|(?<![\w.>:])(?:{calls})\(", blank):
        line = blank.count("\n", 0, match.start()) + 1
        begin = blank.rfind("\n", 0, match.start()) + 1
        if "[[noreturn]]" in blank[begin:match.start()] or re.match(r"\s*(inline )?void $", blank[begin:match.start()]):
            continue
        text = " ".join(source[match.start():match.start() + len(statement_at(blank, match.start()))].split())
        words = re.findall(r'"((?:\\.|[^"\\])*)"', text)
        yield line, match.start() - begin + 1, f'{match.group()}… "{words[0]}"' if words else text[:80]


def never_thrown(data):
    entries = []
    for file in data["files"]:
        path = relative(file["filename"])
        if not is_library(path) or path.startswith("include/"):
            continue
        segments = sorted(file["segments"])
        for line, column, what in error_statements(path):
            if times_reached(segments, line, column) == 0:
                entries.append(Entry(path, line, what))
    return entries


# ---- reasons --------------------------------------------------------------------------------------------------------


def reasons(document):
    """(where, what, why) of the table's rows."""
    text = document.read_text()
    if MARK not in text:
        sys.exit(f"coverage: {document} has no line {MARK}")
    rows = []
    for line in text.split(MARK, 1)[1].strip().splitlines():
        if not line.startswith("|"):
            break
        cells = [cell.strip().strip("`") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 3 and not set(cells[0]) <= set("-: "):
            rows.append(tuple(cell.replace("\\|", "|") for cell in cells))
    return rows[1:]  # without the heading


def covers(row, entry):
    pattern = [re.sub(r"([\[\]?])", r"[\1]", cell) for cell in row[:2]]  # only * is special
    return fnmatch.fnmatchcase(entry.where, pattern[0]) and fnmatch.fnmatchcase(entry.what, pattern[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--llvm", type=pathlib.Path, required=True)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("reasons", type=pathlib.Path)
    arguments = parser.parse_args()

    data = export(arguments.llvm, arguments.build)
    mapped = {relative(file["filename"]) for file in data["files"]}
    if not any(map(is_library, mapped)):
        sys.exit("coverage: no program that the tests run has code of src/ that was built for coverage")
    groups = {"Public functions": sorted(never_called(data, arguments.llvm)), "Error branches": sorted(never_thrown(data))}
    rows = reasons(arguments.reasons)
    used, missing, report = set(), [], ["# Never reached by a test", ""]
    for title, entries in groups.items():
        report += [f"## {title}: {len(entries)}", "", "| where | what | why |", "|---|---|---|"]
        for entry in entries:
            matching = [row for row in rows if covers(row, entry)]
            used.update(matching)
            why = matching[0][2] if matching else "**no reason**"
            if not matching:
                missing.append(entry)
            report.append(f"| {entry.where}:{entry.line} | `{entry.what}` | {why} |".replace("||", "\\|\\|"))
        report.append("")
    # A backend that is not built here has no code to judge its rows by.
    stale = [row for row in rows if row not in used and fnmatch.filter(mapped, row[0])]
    target = arguments.build / "never.md"
    target.write_text("\n".join(report) + "\n")
    for entry in missing:
        print(f"never reached, no reason: {entry.where}:{entry.line}: {entry.what}")
    for row in stale:
        print(f"stale reason: | {row[0]} | {row[1]} |")
    print(f"coverage: {', '.join(f'{len(entries)} {title.lower()}' for title, entries in groups.items())} never reached, "
          f"{len(missing)} without a reason, {len(stale)} stale reasons; see {target}")
    return 1 if missing or stale else 0


if __name__ == "__main__":
    sys.exit(main())
