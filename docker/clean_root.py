"""Carries out the Dockerfile where no Docker engine runs, in fresh Debian or Ubuntu roots, then checks what came of it.

    sudo python3 docker/clean_root.py FOLDER [--suite bookworm] [--build-arg NAME=VALUE] [--env NAME=VALUE]
        [--bring FILE=PLACE]

It proves that the steps need nothing that this machine happens to have. They are read from the Dockerfile itself.
Only the base image is replaced, by what debootstrap makes: NVIDIA's files are not there, and no GPU is. At the end
the health check and smoke.sh run in the last stage, as the image's user. `--env` holds for all commands; `--bring`
puts a file or folder of this machine into a root while a command runs, such as a proxy's certificate or a folder of
wheels. Neither becomes part of a stage.

Linux, root, debootstrap and Python 3.10 are needed. The roots of all stages are kept in FOLDER, about 20 GB.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
FIRST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MOUNT = (
    'mount -t proc proc "$0/proc" && mount -t sysfs -o ro sysfs "$0/sys" '
    '&& mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm"'
)
LAST = "last"  # the stage without a name
OF_THE_IMAGE = ("LABEL", "HEALTHCHECK", "ENTRYPOINT", "CMD")


@dataclass
class Stage:
    """A root being filled, and what is in force there."""

    root: Path
    arguments: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": FIRST_PATH})
    folder: str = "/"
    user: str = "0:0"
    image: dict[str, str] = field(default_factory=dict)

    def filled_in(self, text: str) -> str:
        return fill_in(text, {**self.arguments, **self.environment})


def instructions(dockerfile: str) -> Iterator[tuple[str, str]]:
    """Each instruction and what follows it, on one line; comments are left out.

    >>> list(instructions("FROM a\\n# why\\nRUN b \\\\\\n  && c\\n"))
    [('FROM', 'a'), ('RUN', 'b && c')]
    """
    lines = [line.strip() for line in dockerfile.splitlines()]
    text = "\n".join(line for line in lines if line and not line.startswith("#"))
    for line in re.sub(r"\\\n", "", text).splitlines():
        word, _, rest = line.partition(" ")
        yield word.upper(), rest.strip()


def fill_in(text: str, values: Mapping[str, str]) -> str:
    """`$NAME` and `${NAME}` replaced; a name that is not known is empty, as in Docker."""
    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", lambda found: values.get(found[1] or found[2], ""), text)


class Builder:
    """Stages by name, as the Dockerfile asks for them."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.folder: Path = arguments.folder
        self.suite: str = arguments.suite
        self.debootstrap: list[str] = arguments.debootstrap
        self.given = dict(pair.split("=", 1) for pair in arguments.build_arg)
        self.outside = dict(pair.split("=", 1) for pair in arguments.env)
        self.brought = dict(pair.split("=", 1) for pair in arguments.bring)
        self.stages: dict[str, Stage] = {}
        self.common: dict[str, str] = {}  # arguments before the first FROM
        self.stage: Stage | None = None

    def carry_out(self, word: str, rest: str) -> None:
        if word == "ARG":
            name, _, value = rest.partition("=")
            arguments = self.common if self.stage is None else self.stage.arguments
            arguments[name] = self.given.get(name, fill_in(value, self.common))
        elif word == "FROM":
            self.stage = self._from(fill_in(rest, self.common))
        elif self.stage is None:
            raise SystemExit(f"{word} before FROM")
        elif word == "RUN":
            self._run(self.stage, rest)
        elif word == "COPY":
            self._copy(self.stage, self.stage.filled_in(rest))
        elif word == "ENV":
            pairs = [pair.split("=", 1) for pair in shlex.split(self.stage.filled_in(rest))]
            self.stage.environment.update((name, value) for name, value in pairs)
        elif word == "WORKDIR":
            self.stage.folder = self.stage.filled_in(rest)
            (self.stage.root / self.stage.folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "USER":
            self.stage.user = rest
        elif word in OF_THE_IMAGE:
            self.stage.image[word] = self.stage.filled_in(rest)
        else:
            raise SystemExit(f"{word} is not known here")

    def _from(self, rest: str) -> Stage:
        source, *named = re.split(r"\s+as\s+", rest, flags=re.IGNORECASE)
        name = named[0] if named else LAST
        root = self.folder / name
        remove(root)
        before = self.stages.get(source)
        base = before.root if before else self._base(source)
        say(f"stage {name}: a copy of {base.name}")
        subprocess.run(["cp", "-a", "--reflink=auto", base, root], check=True)
        stage = Stage(root)
        if before:
            stage.environment, stage.folder, stage.user = dict(before.environment), before.folder, before.user
        self.stages[name] = stage
        return stage

    def _base(self, image: str) -> Path:
        root = self.folder / f"base-{self.suite}"
        if not (root / "etc" / "os-release").exists():
            remove(root)
            say(f"{image} is replaced by {self.suite}, made by debootstrap")
            subprocess.run(["debootstrap", "--variant=minbase", *self.debootstrap, self.suite, root], check=True)
        return root

    def _copy(self, stage: Stage, rest: str) -> None:
        words = shlex.split(rest)
        flags = dict(word[2:].split("=", 1) for word in words if word.startswith("--"))
        *sources, target = [word for word in words if not word.startswith("--")]
        origin = self.stages[flags["from"]].root if "from" in flags else REPOSITORY
        where = stage.root / str(Path(stage.folder, target)).lstrip("/")
        is_folder = target.endswith("/") or len(sources) > 1
        say(f"COPY {rest}")
        for source in sources:
            path = origin / source.lstrip("/")
            to = where / path.name if is_folder else where
            to.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, to, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                shutil.copy2(path, to)
            if "chmod" in flags:
                to.chmod(int(flags["chmod"], 8))

    def _run(self, stage: Stage, rest: str) -> None:
        mounts = re.findall(r"--mount=(\S+)", rest)
        command = re.sub(r"--mount=\S+\s*", "", rest)
        targets = []
        for mount in mounts:
            how = dict(part.split("=", 1) for part in mount.split(","))
            target = stage.root / how["target"].lstrip("/")
            shutil.copytree(self.stages[how["from"]].root / how["source"].lstrip("/"), target)
            targets.append(target)
        self.run(stage, command, {**stage.arguments, **stage.environment}, "0:0")
        for target in targets:
            remove(target)

    def run(self, stage: Stage, command: str, environment: Mapping[str, str], user: str) -> None:
        """In the root, with what Docker mounts and an environment of its own; if it fails, that is the end."""
        say(f"RUN as {user}: {command}")
        began = time.monotonic()
        added = [*self._bring(stage.root)]
        pairs = [f"{name}={value}" for name, value in {**environment, **self.outside}.items()]
        inside = f"cd {shlex.quote(stage.folder)} && {command}"
        chroot = [
            "chroot",
            f"--userspec={user}",
            str(stage.root),
            "/usr/bin/env",
            "-i",
            *pairs,
            "/bin/sh",
            "-c",
            inside,
        ]
        enter = ["sh", "-c", f'{MOUNT} && exec "$@"', str(stage.root)]
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", *enter, *chroot], check=False)
        for path in added:
            remove(path)
        if done.returncode:
            raise SystemExit(f"clean root: FAILED with {done.returncode}: {command}")
        say(f"done in {time.monotonic() - began:.0f} s")

    def _bring(self, root: Path) -> Iterator[Path]:
        """What is there already is left alone: it belongs to the stage."""
        for file, place in {"/etc/resolv.conf": "/etc/resolv.conf", **self.brought}.items():
            to = root / place.lstrip("/")
            if not to.exists():
                to.parent.mkdir(parents=True, exist_ok=True)
                subprocess.run(["cp", "-aL", file, to], check=True)
                yield to


def remove(path: Path) -> None:
    subprocess.run(["rm", "-rf", "--one-file-system", path], check=True)


def say(text: str) -> None:
    print(f"[clean root] {text}", flush=True)  # noqa: T201


def size_mb(path: Path) -> int:
    done = subprocess.run(["du", "-sxm", path], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[0])


def prove(builder: Builder) -> None:
    """The health check and the smoke test, as the user of the image, in its last stage."""
    last = builder.stages[LAST]
    if last.user.split(":")[0] in ("0", "root"):
        raise SystemExit("clean root: FAILED, the image would run as root")
    packages = last.root / "opt" / "ucc-path"
    say(f"the last stage has {size_mb(last.root)} MB, {size_mb(packages)} of them Python packages")
    check = json.loads(last.image["HEALTHCHECK"].partition("CMD ")[2])
    for command in (shlex.join(check), "ucc-path-smoke", "INFERENCE=compiled ucc-path-smoke"):
        builder.run(last, command, last.environment, last.user)
    say("passed")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--suite", default="bookworm")
    parser.add_argument("--debootstrap", action="append", default=[], help="a further word for debootstrap")
    parser.add_argument("--build-arg", action="append", default=[])
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--bring", action="append", default=[])
    parser.add_argument("--dockerfile", type=Path, default=REPOSITORY / "docker" / "Dockerfile")
    arguments = parser.parse_args(words)
    builder = Builder(arguments)
    builder.folder.mkdir(parents=True, exist_ok=True)
    for word, rest in instructions(arguments.dockerfile.read_text(encoding="utf-8")):
        builder.carry_out(word, rest)
    prove(builder)


if __name__ == "__main__":
    main()
