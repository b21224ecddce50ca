# SPDX-License-Identifier: Apache-2.0
"""What a wheel and a source archive must be before they go to anybody. Each check returns what is wrong, in words."""

import email
import io
import json
import pathlib
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r"^project\(weir VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]

MODULES = ("cuda", "cupy", "ipc", "numba", "rmm", "torch", "vulkan")  # with stubs
PACKAGE = {"__init__.py", "__main__.py", "_messages.py", "_weir.pyi", "py.typed"} | {  # and the module
    f"{name}.{kind}" for name in MODULES for kind in ("py", "pyi")}
DIST_INFO = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
LIBRARIES = {"libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libc.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1",
             "ld-linux-x86-64.so.2"}
SYSTEM_PATHS = ("/proc/", "/sys/", "/dev/")  # the same on every machine

ARCHIVE_FOLDERS = {"backends", "cmake", "include", "python", "src", "tools"}
ARCHIVE_FILES = {"CHANGELOG.md", "CMakeLists.txt", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
ARCHIVE_SUFFIXES = {".cpp", ".hpp", ".inc", ".cmake", ".in", ".txt", ".map", ".md", ".py", ".pyi", ".typed",
                    ".comp"}  # the source of shaders that an .inc has in binary
ARCHIVE_MOST = 1_000_000  # bytes


def archive_problems(path):
    """Of a source archive: everything in it is of a kind that builds need. That it has enough, a build shows."""
    top = f"weir-{VERSION}"
    if path.name != f"{top}.tar.gz":
        yield f"{path.name}: should be called {top}.tar.gz"
    if path.stat().st_size > ARCHIVE_MOST:
        yield f"{path.name}: has {path.stat().st_size} bytes, more than {ARCHIVE_MOST}"
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    files = {member.name.removeprefix(f"{top}/") for member in members}
    for name in sorted(files):
        first, *rest = name.split("/")
        needed = first in ARCHIVE_FOLDERS and pathlib.PurePath(name).suffix in ARCHIVE_SUFFIXES if rest else \
            first in ARCHIVE_FILES
        if not needed or "tests" in rest:
            yield f"{path.name}: no build needs {name}"
    for name in sorted(ARCHIVE_FILES - files):
        yield f"{path.name}: lacks {name}"
    for member in members:
        if not member.isfile():
            yield f"{path.name}: {member.name} is no plain file"


def expected_tags():
    """Of a wheel that this interpreter makes: the Python that it needs, and the binary interface."""
    version, free_threaded = sys.version_info, bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    if version >= (3, 12) and not free_threaded:
        return "cp312", "abi3"
    python = f"cp{version[0]}{version[1]}"
    return python, python + ("t" if free_threaded else "")


def module_name(abi):
    return "_weir.abi3.so" if abi == "abi3" else f"_weir.cpython-{abi.removeprefix('cp')}-x86_64-linux-gnu.so"


def wheel_problems(path):
    name, version, python, abi, platform = path.stem.split("-")
    if (name, version) != ("weir", VERSION):
        yield f"{path.name}: should be weir {VERSION}"
    if (python, abi) != expected_tags():
        yield f"{path.name}: should be for {'-'.join(expected_tags())}"
    with zipfile.ZipFile(path) as wheel:
        files = {entry: wheel.read(entry) for entry in wheel.namelist() if not entry.endswith("/")}
    info = f"weir-{VERSION}.dist-info/"
    module = "weir/" + module_name(abi)
    expected = {module} | {"weir/" + file for file in PACKAGE} | {info + file for file in DIST_INFO}
    for file in sorted(files.keys() - expected):
        yield f"{path.name}: has {file}, which nobody asked for"
    for file in sorted(expected - files.keys()):
        yield f"{path.name}: lacks {file}"
    yield from metadata_problems(files, info)
    yield from tag_problems(path, email.message_from_bytes(files.get(info + "WHEEL", b"")), f"{python}-{abi}", platform)
    if module in files:
        yield from module_problems(files[module])


def metadata_problems(files, info):
    metadata = email.message_from_bytes(files.get(info + "METADATA", b""))
    for key, value in {"Name": "weir", "Version": VERSION, "Requires-Python": ">=3.10",
                       "License-Expression": "Apache-2.0", "License-File": "LICENSE"}.items():
        if metadata.get_all(key) != [value]:
            yield f"METADATA: {key} is {metadata.get_all(key)}, should be {value}"
    if files.get(info + "licenses/LICENSE") != (ROOT / "LICENSE").read_bytes():
        yield "LICENSE: is not the project's"
    recorded = {line.split(",")[0] for line in files.get(info + "RECORD", b"").decode().splitlines()}
    if recorded != files.keys():
        yield f"RECORD: differs from the wheel in {sorted(recorded ^ files.keys())}"


def audit(path):
    """What auditwheel finds the module to need: its tags, for all of it and for the versions of symbols alone."""
    shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", "--json", path], capture_output=True, text=True)
    if shown.returncode:
        raise RuntimeError(shown.stderr.strip() or shown.stdout.strip())
    return json.loads(shown.stdout)


def is_newer_than_manylinux(audited):
    """Whether the system that made the module has newer libraries than every manylinux that auditwheel knows."""
    return not audited["sym_tag"].startswith("manylinux_")


def tag_problems(path, described, interpreter, platform):
    """The platform of the name, of the metadata, and of what auditwheel finds the module to need, are one."""
    try:
        audited = audit(path)
    except RuntimeError as error:
        yield f"auditwheel: {error}"
        return
    needed = audited["overall_tag"]
    if not needed.startswith("manylinux_") and not is_newer_than_manylinux(audited):
        yield f"auditwheel: the module fits no manylinux, only {needed}"
    if needed not in platform.split("."):
        yield f"{path.name}: auditwheel says {needed}"
    tags = {f"{interpreter}-{each}" for each in platform.split(".")}
    if set(described.get_all("Tag", [])) != tags:
        yield f"WHEEL: has the tags {described.get_all('Tag')}, the name has {sorted(tags)}"


def module_problems(image):
    """Of the bytes of the module: what it loads, what others see of it, what it says of the machine that built it."""
    from elftools.elf.elffile import ELFFile  # which auditwheel brings

    elf = ELFFile(io.BytesIO(image))
    dynamic = list(elf.get_section_by_name(".dynamic").iter_tags())
    for tag in dynamic:
        if tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH", "DT_TEXTREL"):
            yield f"module: has {tag.entry.d_tag} {getattr(tag, 'rpath', '') or getattr(tag, 'runpath', '')}".rstrip()
        if tag.entry.d_tag == "DT_NEEDED" and tag.needed not in LIBRARIES:
            yield f"module: loads {tag.needed}"
    exported = {symbol.name for symbol in elf.get_section_by_name(".dynsym").iter_symbols()
                if symbol.entry.st_shndx != "SHN_UNDEF" and symbol.entry.st_info.bind != "STB_LOCAL"}
    exported = {name for name in exported if not name.startswith("weir_torch_")}  # PyTorch looks these up
    if exported != {"PyInit__weir"}:
        yield f"module: exports {len(exported)} symbols, should be PyInit__weir alone: {sorted(exported)[:4]}"
    if elf.get_section_by_name(".symtab"):
        yield "module: is not stripped"
    for path in sorted(set(re.findall(rb"(?<![\w./+-])/[\w.+-]+/[\w./+-]+", image))):
        if not path.decode().startswith(SYSTEM_PATHS):
            yield f"module: names {path.decode()}"
