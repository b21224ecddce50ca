# SPDX-License-Identifier: Apache-2.0
"""Print a Markdown file of this repository as Doxygen reads it, line for line.

Doxygen before 1.9.8 does not name headings as GitHub does, and its names hold for all pages together. So each heading
gets a name that begins with its page, and links to headings follow.
"""

import pathlib
import re
import sys

FENCED = re.compile(r"^(```.*?^```$)", re.M | re.S)


def page_of(path):
    return re.sub(r"\W", "-", str(path.resolve().relative_to(pathlib.Path.cwd()).with_suffix("")))


def anchor_of(heading):
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def with_links(text, path):
    def link(match):
        words, target = match.groups()
        file, _, anchor = target.partition("#")
        if "://" in target:
            return match[0]
        if anchor:
            return f"[{words}](@ref {page_of(path.parent / file if file else path)}-{anchor})"
        if "include/weir/" in file:
            name = words.strip("`")
            return f"[{name}](@ref {file[file.index('weir/'):]})"
        if not file.endswith(".md"):  # no page: a folder, an example
            return words
        return match[0]

    return re.sub(r"\[([^\]]*)\]\(([^()\s]+)\)", link, text)


def code(match):
    words = match[1]
    if re.search(r"(^|\s)::", words):  # would be a link, even in code
        return "<code>" + re.sub(r"(^|\s)::", r"\1\\::", words) + "</code>"
    return f"``{words}``" if "'" in words else match[0]  # would be an opening quotation mark


def as_doxygen_reads(text, path):
    parts = FENCED.split(text)
    for i in range(0, len(parts), 2):  # between blocks of code
        part = with_links(parts[i], path)
        part = re.sub(r"^(##+ +)(.*)$", lambda m: f"{m[0]} {{#{page_of(path)}-{anchor_of(m[2])}}}", part, flags=re.M)
        part = re.sub(r"(?<!`)`([^`]+)`(?!`)", code, part)
        parts[i] = part
    return "".join(parts)


if __name__ == "__main__":
    file = pathlib.Path(sys.argv[1])
    sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(as_doxygen_reads(file.read_text(encoding="utf-8"), file))
