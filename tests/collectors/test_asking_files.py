"""Requests and results: whole files, one request a session, and nothing of a stranger's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.plugin import register_command
from ctxtop.collectors.plugin.answers import confirm
from ctxtop.collectors.plugin.hook_answer import HookCall
from ctxtop.collectors.plugin_files import compact_requests
from ctxtop.collectors.terminal import request_receipts as receipts_module
from ctxtop.collectors.terminal.request_receipts import (
    CompactRequest,
    read_client_receipts,
    remove_old_files,
)
from ctxtop.core.actions.session_access import (
    ClientCompactResult,
    CompactFailure,
    NotCompactedError,
    Via,
)

from ..transcripts import SESSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REQUEST = "0123456789abcdef"
OTHER = "a" * 8 + SESSION[8:]


def folder(store: Path) -> Path:
    return Path(compact_requests.request_folder(str(store)))


def kept(store: Path) -> Path:
    return Path(compact_requests.request_history_folder(str(store)))


def name(kind: str, request: str = REQUEST, session: str = SESSION) -> str:
    return Path(compact_requests.request_path("", session, request, kind)).name


def leave(store: Path, request: str = REQUEST, more: Mapping[str, object] | None = None) -> Path:
    """Leave a request as ctxtop does."""
    compact_requests.make_request_folders(str(store))
    about = {"session_id": SESSION, "request": request, "text": "keep it"}
    path = folder(store) / name(compact_requests.ASK, request)
    compact_requests.write_request_file(
        str(path), about | {"expires_at": compact_requests.now_ms() + 30_000} | dict(more or {})
    )
    return path


def result(
    store: Path, request: str = REQUEST, kind: str = compact_requests.RESULT
) -> dict[str, object]:
    return compact_requests.read_request_file(str(kept(store) / name(kind, request)))


def modes(top: Path) -> set[tuple[bool, int]]:
    return {(path.is_dir(), path.stat().st_mode & 0o777) for path in [top, *top.rglob("*")]}


def test_all_is_for_its_owner_alone(store: Path) -> None:
    before = os.umask(0)
    try:
        leave(store)
        register_command.note_client(str(store), os.getpid())
        register_command.finish_request(
            str(store), {"session_id": SESSION, "request": REQUEST, "state": "done"}
        )
    finally:
        os.umask(before)
    assert modes(folder(store).parent) == {(True, 0o700), (False, 0o600)}
    assert not list(folder(store).rglob("*.part"))


def test_a_request_is_taken_once(store: Path) -> None:
    path = leave(store)
    assert register_command.take_request(str(store), SESSION) == {
        "session_id": SESSION,
        "request": REQUEST,
        "text": "keep it",
    }
    assert not path.exists()
    assert register_command.take_request(str(store), SESSION) == {}


def test_of_many_takers_one_has_it(store: Path) -> None:
    leave(store)
    argv = [
        sys.executable,
        "-I",
        "-m",
        "ctxtop.collectors.plugin.register_command",
        str(store),
        "take",
    ]
    takers = [subprocess.Popen([*argv, SESSION], stdout=subprocess.PIPE) for _ in range(6)]
    said = [json.loads(taker.communicate(timeout=60)[0]) for taker in takers]
    assert sorted(map(bool, said)) == [False] * 5 + [True]


def test_a_session_takes_its_own_alone(store: Path) -> None:
    leave(store)
    assert register_command.take_request(str(store), OTHER) == {}
    with pytest.raises(ValueError, match="not a session id"):
        register_command.take_request(str(store), "../../x")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"expires_at": 1}, "expired"),
        ({"expires_at": "soon"}, "not made by ctxtop"),
        ({"text": 7}, "not made by ctxtop"),
        ({"text": "a\x1b[2Jb"}, "control characters"),
        ({"text": "a\nb"}, "line breaks"),
        ({"text": "x" * 2001}, "2,001"),
        ({"session_id": OTHER}, "another session"),
        ({"v": 9}, "of an unknown format"),
    ],
)
def test_a_request_that_is_not_good_is_refused(
    store: Path, more: dict[str, object], why: str
) -> None:
    leave(store, more=more)
    assert register_command.take_request(str(store), SESSION) == {}
    assert result(store)["state"] == "refused"
    assert why in str(result(store)["why"])
    assert not list(folder(store).glob("*.taken"))


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff", b'{"v":1}', b"[" * 100_000, b"x" * 70_000]
)
def test_a_garbage_request_is_refused(store: Path, data: bytes) -> None:
    leave(store).write_bytes(data)
    assert register_command.take_request(str(store), SESSION) == {}
    assert result(store)["state"] == "refused"


def test_a_later_good_request_is_taken_after_a_bad_one(store: Path) -> None:
    leave(store, "0" * 16, {"expires_at": 1})
    leave(store, "1" * 16)
    assert register_command.take_request(str(store), SESSION)["request"] == "1" * 16


def _link(store: Path, at: Path) -> None:
    compact_requests.make_request_folders(str(store))
    elsewhere = store.parent / "elsewhere"
    at.rename(elsewhere)
    at.symlink_to(elsewhere)


@pytest.mark.parametrize("place", [folder, kept, lambda store: folder(store).parent])
def test_a_folder_that_is_a_link_is_not_believed(
    store: Path, place: Callable[[Path], Path]
) -> None:
    leave(store)
    _link(store, place(store))
    for act in (
        lambda: register_command.take_request(str(store), SESSION),
        lambda: register_command.finish_request(
            str(store), {"session_id": SESSION, "request": REQUEST, "state": "done"}
        ),
        lambda: register_command.note_client(str(store), 7),
        lambda: compact_requests.make_request_folders(str(store)),
        lambda: read_client_receipts(store, 0),
    ):
        with pytest.raises(compact_requests.UnsafeFolderError):
            act()


@pytest.mark.parametrize("place", [folder, kept])
def test_a_folder_that_is_open_to_others_is_not_believed(
    store: Path, place: Callable[[Path], Path]
) -> None:
    leave(store)
    place(store).chmod(0o777)
    with pytest.raises(compact_requests.UnsafeFolderError, match="accessible to other users"):
        register_command.take_request(str(store), SESSION)


def test_a_request_that_is_a_link_is_not_followed(store: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    path = leave(store)
    path.rename(secret)
    path.symlink_to(secret)
    assert register_command.take_request(str(store), SESSION) == {}
    assert result(store)["state"] == "refused"
    assert secret.exists()


def test_a_result_that_is_a_link_is_replaced_not_followed(store: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    leave(store)
    (kept(store) / name(compact_requests.RESULT)).symlink_to(victim)
    register_command.finish_request(
        str(store), {"session_id": SESSION, "request": REQUEST, "state": "done"}
    )
    assert victim.read_text(encoding="utf-8") == "mine"
    assert result(store)["state"] == "done"


@pytest.mark.parametrize(
    "ended",
    [
        {},
        {"state": "great"},
        {"state": "done", "session_id": "../x"},
        {"state": "done", "request": 7},
    ],
)
def test_a_garbage_result_is_not_kept(store: Path, ended: dict[str, object]) -> None:
    compact_requests.make_request_folders(str(store))
    with pytest.raises((ValueError, LookupError)):
        register_command.finish_request(
            str(store), {"session_id": SESSION, "request": REQUEST} | ended
        )
    assert list(kept(store).iterdir()) == []


def test_a_fifo_does_not_hold_a_reader(store: Path) -> None:
    path = leave(store)
    path.unlink()
    os.mkfifo(path)
    assert register_command.take_request(str(store), SESSION) == {}


def test_verbs_that_are_wrong_fail_without_a_trace(store: Path) -> None:
    for words in ([], [str(store)], [str(store), "dance"], [str(store), "take"]):
        assert register_command.main(words) != 0
    assert not folder(store).exists()


def done(asking: CompactRequest) -> None:
    outcome = ClientCompactResult(
        SESSION, Via.TMUX, asking.requested_at, "b-1", 160_400, 4_000, 1.0,
        estimated_next_tokens=24_000,
    )  # fmt: skip
    asking.finish(outcome)


def test_a_request_is_pending_then_an_orphan(store: Path) -> None:
    compact_requests.make_request_folders(str(store))
    asking = CompactRequest(store, SESSION, "")
    asking.begin(Via.TMUX)
    at = asking.requested_at
    assert [each.state for each in read_client_receipts(store, at + 299_000)] == ["pending"]
    assert [each.state for each in read_client_receipts(store, at + 300_000)] == ["orphan"]
    done(asking)
    (receipt,) = read_client_receipts(store, at + 900_000)
    assert (receipt.state, receipt.via, receipt.boundary_uuid) == ("done", "tmux", "b-1")
    assert (receipt.pre_tokens, receipt.post_tokens) == (160_400, 4_000)
    assert receipt.estimated_next_tokens == 24_000


def test_a_failure_is_kept_and_what_never_began_is_not(store: Path) -> None:
    compact_requests.make_request_folders(str(store))
    asking = CompactRequest(store, SESSION, "")
    asking.fail(NotCompactedError(CompactFailure.UNSAFE, "no"))
    assert read_client_receipts(store, 0) == []
    asking.begin(Via.PLUGIN)
    asking.fail(NotCompactedError(CompactFailure.FAILED, "the API said no"))
    (receipt,) = read_client_receipts(store, 0)
    assert (receipt.state, receipt.why) == ("failed", "the API said no")


def test_no_folder_has_no_receipts(store: Path) -> None:
    assert read_client_receipts(store, 0) == []


def test_garbage_beside_receipts_is_passed_over(store: Path) -> None:
    compact_requests.make_request_folders(str(store))
    for file, data in {
        name(compact_requests.ASKED): b"{",
        name(compact_requests.ASKED, "1" * 16): b'{"v":1,"requested_at":"x"}',
        name(compact_requests.ASKED, "2" * 16): b'{"v":1,"requested_at":1,"via":7}',
        "x.asked": b"",
    }.items():
        (kept(store) / file).write_bytes(data)
    assert read_client_receipts(store, 0) == []


def test_what_is_old_goes(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = leave(store)
    register_command.note_client(str(store), 2_147_483_646)
    register_command.note_client(str(store), os.getpid())
    asking = CompactRequest(store, SESSION, "")
    asking.begin(Via.TMUX)
    remove_old_files(store)
    alive = {each.name for each in kept(store).glob("*.alive")}
    assert alive == {f"{os.getpid()}.alive"}
    assert path.exists()
    monkeypatch.setattr(receipts_module, "RETENTION_S", -1.0)
    monkeypatch.setattr(receipts_module, "LEFTOVER_MAX_AGE_S", -1.0)
    remove_old_files(store)
    assert not path.exists()
    assert {each.name for each in kept(store).iterdir()} == alive


def call(store: Path, session: object = SESSION, event: str = "UserPromptSubmit") -> HookCall:
    return HookCall(event, {"session_id": session}, store, 0)


def test_a_session_is_told_once(store: Path) -> None:
    compact_requests.make_request_folders(str(store))
    asking = CompactRequest(store, SESSION, "")
    asking.begin(Via.TMUX)
    done(asking)
    assert confirm.answer(call(store, OTHER)) is None
    assert confirm.answer(call(store, event="Stop")) is None
    reply = confirm.answer(call(store, SESSION.upper()))
    assert reply is not None
    assert reply.context == "ctxtop compacted this session: 160k → 24k tokens."
    assert confirm.answer(call(store)) is None
    (receipt,) = read_client_receipts(store, 0)
    assert receipt.state == "done"


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ({"state": "done"}, "ctxtop compacted this session: ? → ? tokens of messages."),
        (
            {"state": "done", "pre_tokens": 900, "post_tokens": 1_500},
            "ctxtop compacted this session: 900 → 2k tokens of messages.",
        ),
        (
            {"state": "failed", "why": "the\nAPI"},
            "ctxtop asked to compact this session, but it failed: the API",
        ),
        ({"state": "refused", "why": "busy"}, None),
        ({"state": ["?"]}, None),
    ],
)
def test_what_a_session_is_told(ended: dict[str, object], said: str | None) -> None:
    assert confirm.describe_result(ended) == said


def test_a_session_that_was_not_asked_is_told_nothing(store: Path) -> None:
    assert confirm.answer(call(store)) is None
    assert confirm.answer(call(store, 7)) is None
    assert confirm.answer(call(store, "../x")) is None
    compact_requests.make_request_folders(str(store))
    (kept(store) / name(compact_requests.RESULT)).write_bytes(b"{")
    assert confirm.answer(call(store)) is None
