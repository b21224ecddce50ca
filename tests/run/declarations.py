# SPDX-License-Identifier: Apache-2.0
"""The names that C++ headers in the style of this repository declare, by scope.

names_of(text) gives {scope: set of names}. The scope "weir" has functions, types' aliases, enumerations, concepts and
variables of the namespace, "weir::Buffer" its members, "weir::Errc" its values. Left out are private members, except
virtual functions, and what only declares again: friend classes, forward declarations, using-declarations,
specializations.
"""

import re

TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|::|->|\S")
OPENING, CLOSING = "([{", ")]}"


def tokens_of(text):
    text = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)
    text = re.sub(r"\[\[[^\]]*\]\]|\bWEIR_[A-Z_]+\b", " ", text)
    return TOKEN.findall(text)


def behind(tokens, at):
    """The index behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i] in OPENING) - (tokens[i] in CLOSING)
        if depth == 0:
            return i + 1
    raise ValueError("no end of " + " ".join(tokens[at:at + 20]))


def behind_angles(tokens, at):
    """The same for "<" in a declaration, which has no comparisons."""
    depth = 0
    while True:
        if tokens[at] in OPENING:
            at = behind(tokens, at)
            continue
        depth += (tokens[at] == "<") - (tokens[at] == ">")
        at += 1
        if depth == 0:
            return at


def has_initializer(words):
    """Whether there is a "=" outside of brackets that is not an operator's name."""
    i = 0
    while i < len(words):
        if words[i] == "=" and words[i - 1] != "operator":
            return True
        if words[i] == "operator":
            i = words.index("(", i)
        i = behind(words, i) if words[i] in OPENING else i + 1
    return False


def split_at_commas(tokens):
    part, i = [], 0
    while i < len(tokens):
        end = behind(tokens, i) if tokens[i] in OPENING else behind_angles(tokens, i) if tokens[i] == "<" else i + 1
        if tokens[i] == ",":
            yield part
            part = []
        else:
            part += tokens[i:end]
        i = end
    yield part


def declared_by(statement):
    """The names of the functions or variables that a statement declares, up to its body or its ";"."""
    i = 0
    while i < len(statement):
        token = statement[i]
        if token == "operator":
            end = statement.index("(", i)
            name = "".join(statement[i + 1:end])
            return ["operator " + name if name[0].isalpha() else "operator" + name]
        if token == "<":
            i = behind_angles(statement, i)
        elif token == "(":
            if statement[i + 1] == "*":  # a pointer to functions
                return [statement[i + 2]]
            return [("~" if statement[i - 2:i - 1] == ["~"] else "") + statement[i - 1]]
        elif token in ("=", "{", "[", ","):
            break
        else:
            i += 1
    names = []
    for part in split_at_commas(statement[:statement.index("=")] if "=" in statement[:i + 1] else statement):
        until = next((k for k, token in enumerate(part) if token in "={["), len(part))
        names.append(next(token for token in reversed(part[:until]) if re.match(r"[A-Za-z_]", token)))
    return names


class Scopes:
    def __init__(self, tokens):
        self.tokens, self.names = tokens, {}
        self.read(0, "", "public")

    def declare(self, scope, names):
        self.names.setdefault(scope, set()).update(names)

    def statement(self, at):
        """The tokens from `at` to ";" or to the "{" of a body, and the index behind them."""
        begin = at
        while self.tokens[at] not in (";", "{", "}"):
            at = behind(self.tokens, at) if self.tokens[at] in OPENING else at + 1
        return self.tokens[begin:at], at

    def read(self, at, scope, access):
        in_class = access != "namespace" and scope != ""
        while at < len(self.tokens) and self.tokens[at] != "}":
            if self.tokens[at] in ("public", "protected", "private") and self.tokens[at + 1] == ":":
                access = self.tokens[at]
                at += 2
                continue
            words, at = self.statement(at)
            while words and words[0] == "template":
                words = words[behind_angles(words, 1):]
            if words and words[0] == "requires":  # a name with arguments, then the declaration
                words = words[behind_angles(words, words.index("<")):]
            at = self.take(words, at, scope, access if in_class else "namespace")
        return at + 1

    def take(self, words, at, scope, access):
        inside = lambda name: f"{scope}::{name}" if scope else name  # noqa: E731
        visible = access != "private"
        opens = self.tokens[at] == "{"
        first = words[0] if words else ";"
        if first == "namespace":
            return self.read(at + 1, inside("".join(words[1:])), "namespace")
        if first in ("class", "struct") and not opens:
            return at + 1
        if first in ("class", "struct", "enum"):
            name = words[2] if words[1] in ("class", "struct") else words[1]
            if not visible or "::" in words[:3]:
                at = behind(self.tokens, at)
            elif first == "enum":
                end = behind(self.tokens, at)
                values = self.tokens[at + 1:end - 1]
                self.declare(scope, [name])
                self.declare(inside(name), [part[0] for part in split_at_commas(values) if part])
                at = end
            else:
                self.declare(inside(name), [])
                at = self.read(at + 1, inside(name), "private" if first == "class" else "public")
            words, at = self.statement(at)
            if visible and words:
                self.declare(scope, declared_by(words))
            return at + 1
        while self.tokens[at] == "{":  # a body, or the initializer of a variable or a member
            end = behind(self.tokens, at)
            if self.tokens[end] not in (",", ";", "{") and not has_initializer(words):
                at = end - 1
                break
            more, after = self.statement(end)
            words, at = words + self.tokens[at:end] + more, after
        if first == "concept":
            self.declare(scope, [words[1]])
        if first in ("static_assert", "concept", ";") or words[:2] == ["friend", "class"]:
            return at + 1
        if first == "using":
            if "=" in words and visible:
                self.declare(scope, [words[1]])
            return at + 1
        if visible or "virtual" in words:
            self.declare(scope, declared_by(words))
        return at + 1


def names_of(text):
    return Scopes(tokens_of(text)).names
