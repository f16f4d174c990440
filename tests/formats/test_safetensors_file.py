"""The careful reading that models and training states share; every file here is made byte by byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ucc_path.errors import OutputError, RunError
from ucc_path.formats import safetensors_file

RECORD = '{"format": "ours", "version": 1, "step": 3}'
METADATA = {"__metadata__": {"ucc-path": RECORD}}


def make_file(path: Path, header: Any, data: bytes = b"", *, length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def entry(dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8), **more: Any) -> dict[str, Any]:
    return {**METADATA, "w": {"dtype": dtype, "shape": shape, "data_offsets": offsets}, **more}


def read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    return safetensors_file.read(path, format="ours", version=1, refusal=RunError)


def write(path: Path, tensors: dict[str, Tensor], record: dict[str, Any] | None = None) -> None:
    safetensors_file.write(path, format="ours", version=1, record=record or {}, tensors=tensors)


def test_a_file_made_by_the_book_is_read(tmp_path: Path) -> None:
    data = torch.tensor([1.0, 2.0]).numpy().tobytes()
    record, tensors = read(make_file(tmp_path / "f", entry(), data))
    assert record == {"step": 3}
    assert tensors["w"].tolist() == [1.0, 2.0]
    tensors["w"] += 1  # it is ours to change


@pytest.mark.parametrize(
    ("header", "data", "reason"),
    [
        (b"", b"", "its header is not JSON"),
        (b"{", b"", "its header is not JSON"),
        (b"\xff\xff", b"", "its header is not JSON"),
        (b"[" * 500_000, b"", "its header is not JSON"),
        (b'{"a":' * 100_000, b"", "its header is not JSON"),
        (b'{"a": NaN}', b"", "its header is not JSON"),
        (b'{"a": ' + b"9" * 10_000 + b"}", b"", "its header is not JSON|it holds no ours"),
        ([], b"", "its header is not a JSON object"),
        ({}, b"", "it holds no ours"),
        ({"__metadata__": {"format": "pt"}}, b"", "it holds no ours"),
        ({"__metadata__": [RECORD]}, b"", "it holds no ours"),
        ({"__metadata__": {"ucc-path": 7}}, b"", "it holds no ours"),
        ({"__metadata__": {"ucc-path": "{"}}, b"", "its record of ucc-path is not JSON"),
        ({"__metadata__": {"ucc-path": "[" * 400_000}}, b"", "its record of ucc-path is not JSON"),
        ({"__metadata__": {"ucc-path": '{"a": Infinity}'}}, b"", "its record of ucc-path is not JSON"),
        ({"__metadata__": {"ucc-path": "[]"}}, b"", "its record of ucc-path is not a JSON object"),
        ({"__metadata__": {"ucc-path": '{"format": "other"}'}}, b"", "it holds no ours"),
        ({"__metadata__": {"ucc-path": '{"format": "ours"}'}}, b"", "it is of version unknown, this program reads 1"),
        (METADATA, b"more", "its tensors are not one after the other"),
        (entry(), b"", "it is cut short"),
        (entry(), b"1234567", "it is cut short"),
        (entry(), b"123456789", "its tensors are not one after the other"),
        (entry(offsets=(1, 9)), b"123456789", "its tensors are not one after the other"),
        (entry(v=entry()["w"]), b"12345678", "its tensors are not one after the other"),
        (entry(dtype="F99"), b"12345678", "its tensor 'w' has a type, a shape or a place that is not possible"),
        (entry(dtype=["F32"]), b"12345678", "its tensor 'w'"),
        (entry(dtype="BOOL", shape=(8,)), b"12345678", "its tensor 'w'"),
        (entry(shape=(3,)), b"12345678", "its tensor 'w'"),
        (entry(shape=(-1, -2)), b"12345678", "its tensor 'w'"),
        (entry(shape=(2.0,)), b"12345678", "its tensor 'w'"),
        (entry(shape=2), b"12345678", "its tensor 'w'"),
        (entry(shape=(2, *[1] * 8)), b"12345678", "its tensor 'w'"),
        (entry(shape=(0, 2**70), offsets=(0, 0)), b"", "its tensor 'w'"),
        (entry(shape=(2**62, 4)), b"12345678", "its tensor 'w'"),
        (entry(offsets=(8, 0)), b"12345678", "its tensor 'w'"),
        (entry(offsets=(-8, 0)), b"12345678", "its tensor 'w'"),
        (entry(offsets=(0, 2**70)), b"12345678", "it is cut short"),
        (entry(offsets=(0.0, 8.0)), b"12345678", "its tensor 'w'"),
        (entry(offsets=(0,)), b"12345678", "its tensor 'w'"),
        ({**METADATA, "\x1b[2J": 5}, b"", r"its tensor '\\x1b\[2J'"),
        ({**METADATA, "w": {"dtype": "F32"}}, b"", "its tensor 'w'"),
    ],
)
def test_a_header_that_is_not_right_is_refused(tmp_path: Path, header: Any, data: bytes, reason: str) -> None:
    with pytest.raises(RunError, match=f"^{reason}"):
        read(make_file(tmp_path / "f", header, data))


@pytest.mark.parametrize("version", ["2", "0", "true", "1.0", '"1"', "[]", "9" * 4000])
def test_another_version_is_refused(tmp_path: Path, version: str) -> None:
    record = f'{{"format": "ours", "version": {version}}}'
    shown = version if version in "20" else "unknown"
    with pytest.raises(RunError, match=f"^it is of version {shown}, this program reads 1$"):
        read(make_file(tmp_path / "f", {"__metadata__": {"ucc-path": record}}))


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        (2**64 - 1, "it is no safetensors file, or one far too large"),
        (2**63, "it is no safetensors file, or one far too large"),
        (2**20 + 1, "it is no safetensors file, or one far too large"),
        (2**20, "it is cut short"),
        (1000, "it is cut short"),
    ],
)
def test_the_length_of_the_header_is_not_believed(tmp_path: Path, length: int, reason: str) -> None:
    with pytest.raises(RunError, match=f"^{reason}"):
        read(make_file(tmp_path / "f", entry(), b"12345678", length=length))


def test_what_is_no_file_of_tensors_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with pytest.raises(RunError, match=r"^No such file or directory$"):
        read(path)
    with pytest.raises(RunError, match=r"^it is a folder$"):
        read(tmp_path)
    path.touch()
    with pytest.raises(RunError, match=r"^it is empty$"):
        read(path)
    path.write_bytes(b"1234567")
    with pytest.raises(RunError, match=r"^it is cut short$"):
        read(path)
    os.truncate(path, 2**33)  # takes no room
    with pytest.raises(RunError, match="far too large"):
        read(path)


def test_a_pipe_is_refused_without_waiting_for_its_other_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f")
    with pytest.raises(RunError, match=r"^it is not a file$"):
        read(tmp_path / "f")


def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_file(tmp_path / "f", entry(), b"12345678")
    whole = path.stat()
    os.truncate(path, whole.st_size - 3)
    monkeypatch.setattr(os, "fstat", lambda file: whole)  # as it was when it was asked
    with pytest.raises(RunError, match=r"^it is cut short$"):
        read(path)


DTYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
)  # fmt: skip


def test_every_type_and_shape_comes_back_as_it_was(tmp_path: Path) -> None:
    tensors = {str(dtype): torch.arange(6).to(dtype).reshape(2, 3) for dtype in DTYPES}
    tensors |= {"scalar": torch.tensor(2.5), "empty": torch.empty(0, 4), "gaps": torch.arange(10.0)[::2]}
    tensors |= {"turned": torch.arange(6.0).reshape(2, 3).T, "wide": torch.ones(1).expand(3)}
    tensors |= {
        "learnt": torch.nn.Parameter(torch.ones(2)),
        "images": torch.ones(1, 2, 3, 3).to(memory_format=torch.channels_last),
    }
    tensors["the same again"] = tensors["scalar"]
    write(tmp_path / "f", tensors, {"step": 1, "names": ["a", None]})
    record, found = read(tmp_path / "f")
    assert record == {"step": 1, "names": ["a", None]}
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name


def test_what_is_written_can_be_read_with_the_package_too(tmp_path: Path) -> None:
    from safetensors import safe_open

    write(tmp_path / "f", {"w": torch.ones(2)}, {"step": 3})
    with safe_open(tmp_path / "f", framework="pt") as file:
        assert json.loads(file.metadata()["ucc-path"]) == {"format": "ours", "version": 1, "step": 3}
        assert torch.equal(file.get_tensor("w"), torch.ones(2))


def test_the_same_tensors_give_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    tensors = {"b": torch.zeros(3), "a": torch.ones(2, dtype=torch.int64), "c": torch.ones(1)}
    write(tmp_path / "one", tensors, {"x": 1, "y": 2})
    write(tmp_path / "two", dict(reversed(tensors.items())), {"y": 2, "x": 1})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "f", []
    monkeypatch.setattr(os, "fsync", lambda file: seen.append((path.exists(), os.fstat(file).st_ino)))
    write(path, {"w": torch.ones(2)})
    assert seen == [(False, path.stat().st_ino), (True, tmp_path.stat().st_ino)]  # the file, then its name


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_told_in_one_line_and_the_old_file_stands(tmp_path: Path) -> None:
    write(tmp_path / "f", {"w": torch.ones(2)})
    (tmp_path / "f.partial").symlink_to("/dev/full")
    with pytest.raises(OutputError, match=r"f cannot be written \(No space left on device\); make room on the disk"):
        write(tmp_path / "f", {"w": torch.zeros(2)})
    assert read(tmp_path / "f")[1]["w"].tolist() == [1, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_what_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="too large to be read back"):
        write(tmp_path / "f", {"w": torch.ones(2)}, {"text": "x" * 2**20})
    assert list(tmp_path.iterdir()) == []


def test_reading_takes_the_memory_of_the_file_once(tmp_path: Path) -> None:
    write(tmp_path / "f", {f"w{i}": torch.ones(2**19) for i in range(24)})  # 48 MB
    code = (
        "import resource, sys; from pathlib import Path; from ucc_path.errors import RunError\n"
        "from ucc_path.formats import safetensors_file\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "safetensors_file.read(Path(sys.argv[1]), format='ours', version=1, refusal=RunError)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "f")], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 60_000  # kB
