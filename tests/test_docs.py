"""The pages of docs/ do not rot: they are held against the commands, the source, the files and each other."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import subprocess
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

import ucc_path
from ucc_path.formats import labels_csv

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
LINKED = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
SPOKEN = [*PAGES, ROOT / "CONTRIBUTING.md", *sorted((ROOT / ".github").rglob("*.*"))]
SOURCES = sorted([*(ROOT / "ucc_path").rglob("*.py"), *(ROOT / "cli").glob("*.py")])

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
GAP = "…"  # in a message that is quoted: a name, a number, anything that is known only when it is printed
SHORTEST = 4  # letters of a text that a message may be put together from; shorter ones fit everywhere
MARKS = " ;:,.()"  # that may stand where two texts meet

OF_OTHERS = {  # options of programs that are not at hand
    *("--rm", "--gpus", "--entrypoint", "--user", "--shm-size", "--network", "--profile", "--scale"),  # Docker
    *("--nv", "--cleanenv", "--bind"),  # Apptainer
    *("--head", "--port", "--address", "--block"),  # ray start
}


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(path: Path, language: str) -> list[str]:
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", text_of(path), re.DOTALL | re.MULTILINE)
    return found


def prose(path: Path) -> str:
    """A page without its blocks and its code, in which brackets are no links."""
    without_blocks = re.sub(r"^```.*?^```", "", text_of(path), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]+`", "", without_blocks)


def typed(*words: str) -> list[str]:
    """The lines of all pages that are to be typed and begin with one of the words."""
    lines = [
        line.split("#")[0].strip() for page in SPOKEN for block in blocks(page, "bash") for line in block.splitlines()
    ]
    return sorted({line for line in lines if line and (not words or line.split()[0] in words)})


@cache
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def commands() -> dict[str, click.Command]:
    group: click.Group = generator().group()
    context = click.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


def understand(name: str, arguments: list[str]) -> None:
    """Raises on an unknown command, an unknown option or a bad value."""
    commands()[name].make_context(name, arguments)


# What is generated


def test_the_generated_pages_are_up_to_date() -> None:
    assert sorted(generator().stale(DOCS)) == []  # mend it with python docs/generate.py


def test_a_stale_page_is_named_and_can_be_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator(), "FOLDER", tmp_path)
    run = CliRunner().invoke
    assert run(generator().main, []).exit_code == 0
    assert run(generator().main, ["--check"]).exit_code == 0
    (tmp_path / "formats.md").write_text("old")
    checked = run(generator().main, ["--check"])
    assert checked.exit_code == 1
    assert "formats.md" in checked.output and "commands.md" not in checked.output


def test_help_is_rendered_alike_in_every_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    before = generator().pages()
    monkeypatch.setenv("COLUMNS", "40")
    assert generator().pages() == before


def test_every_command_and_every_format_has_its_section() -> None:
    page = text_of(DOCS / "commands.md")
    assert [name for name in commands() if f"\n## ucc-path {name}\n" not in page] == []
    modules = {path.stem for path in (ROOT / "ucc_path" / "formats").glob("*.py")}
    told = [module for chapter in generator().CHAPTERS.values() for module in chapter]
    assert sorted([*told, *generator().NOT_MET]) == sorted(modules)


# What is typed


def test_the_pages_show_commands() -> None:
    assert len(typed("ucc-path")) >= 20


def test_only_known_programs_are_typed() -> None:
    known = {"ucc-path", "torchrun", "make", ".venv/bin/python", "export", "mkdir", "mv", "rm", "npm", "tar"}
    known |= {"ray", "sbatch", "kubectl", "docker", "docker/smoke.sh", "apptainer"}
    assert {line.split()[0] for line in typed()} - known == set()


@pytest.mark.parametrize("line", typed("ucc-path"))
def test_every_command_typed_is_understood(line: str) -> None:
    _, name, *arguments = shlex.split(line)
    understand(name, arguments)


@pytest.mark.parametrize("line", typed("torchrun"))
def test_every_launch_typed_is_understood(line: str) -> None:
    from torch.distributed.run import get_args_parser

    launch = get_args_parser().parse_args(shlex.split(line)[1:])
    assert launch.module and launch.training_script == "ucc_path_cli"
    name, *arguments = launch.training_script_args
    understand(name, arguments)


@pytest.mark.parametrize("line", typed("ray"))
def test_every_command_of_ray_typed_is_understood(line: str) -> None:
    from ray.scripts.scripts import cli

    _, name, *arguments = shlex.split(line)
    cli.commands[name].make_context(name, arguments)


def test_the_script_for_slurm_is_bash_and_calls_what_is_there() -> None:
    path = DOCS / "cluster" / "slurm.sh"
    assert subprocess.run(["bash", "-n", path], capture_output=True).returncode == 0
    (call,) = re.findall(r"^ucc-path segment (.*) &$", text_of(path), re.MULTILINE)
    understand("segment", shlex.split(call))
    from ray.scripts.scripts import cli

    ours = {option for line in text_of(path).splitlines() if "srun" not in line for option in OPTION.findall(line)}
    of_ray = {flag for name in ("start", "status") for param in cli.commands[name].params for flag in param.opts}
    of_segment = {flag for param in commands()["segment"].params for flag in param.opts}
    of_slurm = set(OPTION.findall("\n".join(re.findall(r"^#SBATCH.*", text_of(path), re.MULTILINE))))
    assert ours - of_ray - of_segment - of_slurm == set()


def test_the_manifest_for_kubernetes_is_of_these_versions_and_calls_what_is_there() -> None:
    import yaml

    job = yaml.safe_load(text_of(DOCS / "cluster" / "kuberay.yaml"))
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    _, name, *arguments = shlex.split(job["spec"]["entrypoint"])
    understand(name, arguments)
    cluster = job["spec"]["rayClusterSpec"]
    pinned = dict(
        line.split("==") for line in text_of(ROOT / "constraints.txt").splitlines() if line.startswith("ray=")
    )
    assert cluster["rayVersion"] == pinned["ray"]
    assert f"ray[default]=={pinned['ray']}" in text_of(DOCS / "cluster" / "kuberay.yaml")
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        (container,) = group["template"]["spec"]["containers"]
        assert container["image"].endswith(f"ucc-path:{ucc_path.__version__}")
        assert {mount["name"] for mount in container["volumeMounts"]} == {
            volume["name"] for volume in group["template"]["spec"]["volumes"]
        }


@pytest.mark.parametrize("line", typed("make"))
def test_every_make_target_typed_is_there(line: str) -> None:
    assert re.search(rf"^{line.split()[1]}:", text_of(ROOT / "Makefile"), re.MULTILINE)


@cache
def known_options() -> set[str]:
    from torch.distributed.run import get_args_parser

    ours = [*commands().values(), generator().main]
    known = {flag for command in ours for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    known |= {flag for action in get_args_parser()._actions for flag in action.option_strings}
    known |= {
        flag for path in (ROOT / "benchmarks").glob("*.py") for flag in re.findall(r'"(--[a-z-]+)"', text_of(path))
    }
    from ray.scripts.scripts import cli

    known |= {
        flag for name in ("start", "get-auth-token") for param in cli.commands[name].params for flag in param.opts
    }
    return known | OF_OTHERS | {"--help", "--version"}


@pytest.mark.parametrize("path", SPOKEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_option_named_exists(path: Path) -> None:
    # In commands.md a long name may be broken at its hyphen, where click wraps a line.
    text = re.sub(r"-\n\s+(?=[a-z])", "-", text_of(path))
    assert set(OPTION.findall(text)) - known_options() == set()


def test_the_labels_shown_are_read_as_the_page_says(tmp_path: Path) -> None:
    (shown,) = (block for block in blocks(DOCS / "labels.md", "text") if block.startswith("tile_id,"))
    (tmp_path / labels_csv.NAME).write_text(shown, encoding="utf-8")
    labels = labels_csv.read(tmp_path)
    assert labels["case_1_x4162_y960"].ucc == 1
    assert labels["case_2_x1208_y1386"].kind == "normal"
    assert labels["case_3_x956_y2524"].kind == "mixture"  # the last row counts


# What is linked


def links(path: Path) -> Iterator[str]:
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose(path)):
        if not re.match(r"[a-z]+:", target):
            yield target


def anchors(path: Path) -> set[str]:
    """What headings are called in links: lower case, words joined by hyphens, without any other mark."""
    headings = re.findall(r"^#+ (.+)$", text_of(path), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", LINKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    for target in links(path):
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def test_every_page_is_listed() -> None:
    assert {f"{page.stem}.md" for page in PAGES} - {*links(DOCS / "README.md"), "README.md"} == set()


# What is quoted


@cache
def sayings() -> dict[Path, frozenset[str]]:
    """All texts of each module: literals as the interpreter joins them, parted where a value is put in."""
    found = {}
    for path in SOURCES:
        nodes = ast.walk(ast.parse(text_of(path)))
        texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        found[path] = frozenset(text for text in (text.strip(MARKS) for text in texts) if len(text) >= SHORTEST)
    return found


def is_made_of(text: str, texts: Collection[str]) -> bool:
    """Whether whole texts, one after the other, give it: of a reworded message one of them would be missing."""
    if not text:
        return True
    return any(text.startswith(part) and is_made_of(text[len(part) :].strip(MARKS), texts) for part in texts)


def is_said(message: str) -> bool:
    """Whether one module holds all that stands between the gaps of a message."""
    said = re.sub(rf"^(?:Error|Note|Failed: {GAP}): ", "", message)
    parts = [part for part in (part.strip(MARKS) for part in said.split(GAP)) if len(part) >= SHORTEST]
    return bool(parts) and any(all(is_made_of(part, texts) for part in parts) for texts in sayings().values())


MESSAGES = [line for block in blocks(DOCS / "troubleshooting.md", "text") for line in block.splitlines()]


def test_messages_are_quoted() -> None:
    assert len(MESSAGES) >= 20
    assert [message for message in MESSAGES if not message.startswith(("Error: ", "Note: ", "Failed: "))] == []


@pytest.mark.parametrize("message", MESSAGES)
def test_every_message_quoted_is_one_that_is_printed(message: str) -> None:
    assert is_said(message)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_that_is_reworded_would_be_noticed(message: str) -> None:
    prefix, _, said = message.partition(": ")
    for word in set(re.findall(rf"[a-z]{{{SHORTEST},}}", said)):
        assert not is_said(f"{prefix}: {re.sub(rf'{word}', word[:-1] + 'q', said, count=1)}"), word
    assert not is_said(message + " at once")
