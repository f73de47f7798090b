"""Commands on a workspace without a server: output, exit codes, errors."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import orjson
import pytest

from headrace.cli.app import COMMANDS, load_command
from headrace.cli.init_command import settings_text
from headrace.workspace.settings import Settings, Workspace
from tests import wording
from tests.surfaces.conftest import HEADRACE, Ran, Served, visit, write_events
from tests.surfaces.modules import HEAVY, WITHOUT_SERVER, imported_modules, make_stopped, packages, stopped_modules

Command = Callable[..., Ran]
EXPECTED = {
    "init", "plan", "apply", "test", "up", "send", "ask", "explain", "sql", "status", "streams", "views",
    "dead-letters", "versions", "rollback", "refresh", "audit", "doctor", "demo", "tail", "subscriptions",
    "watch", "sinks", "alerts", "skip", "generate", "graph", "tables",
}  # fmt: skip


def test_help_names_every_command(headrace: Command) -> None:
    result = headrace("--help")
    assert result.code == 0
    for name in EXPECTED:
        assert f"\n  {name} " in result.out
    assert COMMANDS.keys() == EXPECTED
    for name in COMMANDS:
        assert load_command(name).get_short_help_str(limit=200) == COMMANDS[name][1]


@pytest.mark.parametrize("command", sorted(EXPECTED))
def test_each_command_has_help(headrace: Command, command: str) -> None:
    result = headrace(command, "--help")
    assert result.code == 0
    assert f"Usage: headrace {command}" in result.out


MOST_MODULES = 300  # of a command that asks a server


def test_help_imports_little() -> None:
    modules = imported_modules("--help")
    assert not packages(modules).keys() & {*HEAVY, "rich", "orjson"}
    assert len(modules) <= 160


def test_help_of_a_command_imports_no_heavy_package() -> None:
    load_all = "import sys; from headrace.cli.app import COMMANDS, load_command; [*map(load_command, COMMANDS)]"
    process = subprocess.run(
        [sys.executable, "-c", f"{load_all}; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    assert not packages(process.stdout.split()).keys() & HEAVY


def test_commands_beside_a_server_import_little(applied: Path, served: Served) -> None:
    events = write_events(applied / "v.ndjson", visit())
    for command in (
        ["status"], ["plan"], ["ask", "traffic"], ["send", "visits", events], ["streams"], ["views"],
        ["versions", "traffic"], ["sql", "--help"],
    ):  # fmt: skip
        for options in (["-w", applied], ["--json", "-w", served.url]):
            modules = imported_modules(*command, *options)
            assert not packages(modules).keys() & HEAVY, command
            assert len(modules) <= MOST_MODULES, command


def test_commands_without_a_server_import_what_they_need(tmp_path: Path) -> None:
    make_stopped(tmp_path / "shop")
    for command, (most, needed) in WITHOUT_SERVER.items():
        modules = stopped_modules(command, tmp_path / "shop")
        assert packages(modules).keys() & HEAVY <= needed, command
        assert len(modules) <= most, command


def test_commands_without_spark_do_not_import_it(applied: Path) -> None:
    events = write_events(applied / "v.ndjson", visit())
    for arguments in (["plan"], ["status"], ["views", "--json"], ["send", "visits", events]):
        assert "pyspark" not in packages(imported_modules(*arguments, "-w", applied)), arguments


def test_version(headrace: Command) -> None:
    assert headrace("--version").out.startswith("headrace 0.")


def test_init_creates_a_valid_workspace(folder: Path, headrace: Command) -> None:
    assert tomllib.loads((folder / "headrace.toml").read_text()) == {}
    assert Workspace.open(folder).settings.port == Settings.port
    assert (folder / ".gitignore").read_text() == "data/\n"
    assert headrace("plan", "-w", folder).out.endswith("2 to create\n")
    result = headrace("init", folder / "other", "--json").json
    files = ["headrace.toml", "definitions/shop.sql", "tests/shop.yaml", "visits.ndjson", ".gitignore"]
    assert result["files"] == files
    send = result["next"][1].split()
    assert send[:2] == ["headrace", "send"]
    assert headrace("apply", "--yes", "-w", folder / "other").code == 0
    assert headrace(*send[1:-1]).out.startswith("5 events sent")  # without --wait, since no server runs
    again = headrace("init", folder)
    assert again.code == 1
    wording.check(again.err, folder)


def test_settings_and_data_are_readable_only_by_their_owner(tmp_path: Path, headrace: Command) -> None:
    before = os.umask(0)
    try:
        assert headrace("init", tmp_path / "shop").code == 0
        assert headrace("apply", "--yes", "-w", tmp_path / "shop").code == 0
    finally:
        os.umask(before)
    modes = {name: (tmp_path / "shop" / name).stat().st_mode & 0o777 for name in ("headrace.toml", "data")}
    assert modes == {"headrace.toml": 0o600, "data": 0o700}


def test_init_from_a_file_creates_a_workspace_that_accepts_the_file(tmp_path: Path, headrace: Command) -> None:
    file = write_events(tmp_path / "page views.ndjson", *(visit(second, page=f"/{second % 3}") for second in range(40)))
    result = headrace("init", tmp_path / "mine", "--from", file)
    assert result.code == 0, result.err
    wording.check_line(result.out, "40 of 40")
    folder = tmp_path / "mine"
    assert f"headrace send -w {folder} page_views '{os.path.relpath(file)}' --wait" in result.out
    assert f"headrace ask -w {folder} page_views_by_page" in result.out
    assert headrace("apply", "-w", folder, "--yes").code == 0
    assert headrace("send", "-w", folder, "page_views", file).out.startswith("40 events sent")


def test_init_from_a_file_of_a_running_workspace_suggests_apply(
    applied: Path, serve: Callable[..., Served], headrace: Command
) -> None:
    served = serve(applied)
    file = write_events(applied / "prices.ndjson", {"symbol": "HR", "price": 1.5}, {"symbol": "RH", "price": 2.5})
    result = headrace("init", applied, "--from", file)
    assert f"a server runs this workspace already):\n  headrace apply -w {applied}\n" in result.out
    assert "headrace up" not in result.out
    assert f"Open {served.url} in a browser to watch it." in result.out
    (applied / "definitions" / "prices.sql").unlink()
    assert headrace("init", applied, "--from", file, "--json").json["next"][0] == f"headrace apply -w {applied}"


def test_init_from_files_adds_to_a_workspace_one_stream_for_each_shape(folder: Path, headrace: Command) -> None:
    logins = [write_events(folder / f"logins-{day}.ndjson", {"user": "ann", "ts": 1715940303 + day}) for day in (1, 2)]
    prices = write_events(folder / "prices.ndjson", {"symbol": "HR", "price": 1.5})
    result = headrace("init", folder, "--from", logins[0], logins[1], prices, "--json").json
    tests = ["tests/logins.yaml", "tests/prices.yaml"]
    assert result["files"] == ["definitions/logins.sql", "definitions/prices.sql", *tests]
    assert [stream["stream"] for stream in result["streams"]] == ["logins", "prices"]
    assert result["streams"][0]["fields"][-1]["computed"] == "timestamp_seconds(ts)"
    assert headrace("plan", "-w", folder).out.endswith("6 to create\n")
    again = headrace("init", folder, "--from", prices)
    assert again.code == 1
    wording.check(again.err, "prices")


def test_init_prints_the_options_of_send_that_a_file_needs(tmp_path: Path, headrace: Command) -> None:
    file = tmp_path / "export"
    file.write_text("1,2026-01-01 10:00:00,a b\n2,2026-01-01 10:01:00,c\n")
    assert "--fields" in headrace("init", tmp_path / "mine", "--from", file).err
    result = headrace("init", tmp_path / "mine", "--from", file, "--fields", "id,at,what", "--json").json
    send = result["next"][1].split()
    assert send[-6:] == [os.path.relpath(file), "--format", "csv", "--fields", "id,at,what", "--wait"]
    assert headrace("apply", "--yes", "-w", tmp_path / "mine").code == 0
    assert headrace(*send[1:-1]).out.startswith("2 events sent")


def test_without_arguments_it_shows_help(headrace: Command) -> None:
    result = headrace()
    assert result.code == 0
    assert result.out == headrace("--help").out
    commands = result.out.partition("Commands:")[2]
    assert "..." not in commands  # no summary is cut off


def test_the_error_of_a_view_that_is_not_served_names_it(folder: Path, applied: Path, headrace: Command) -> None:
    wording.check(headrace("ask", "trafic", "-w", applied).err, "trafic", "traffic")
    wording.check(headrace("ask", "traffic", "-w", applied).err, "traffic")
    sql = "CREATE MATERIALIZED VIEW pages AS SELECT page, count(*) AS n FROM visits GROUP BY page;"
    (folder / "definitions" / "pages.sql").write_text(sql)
    wording.check(headrace("ask", "pages", "-w", folder).err, "pages")


def test_init_from_a_bad_file_leaves_nothing(tmp_path: Path, headrace: Command) -> None:
    empty = tmp_path / "empty.ndjson"
    empty.write_text("")
    wording.check(headrace("init", tmp_path / "new", "--from", empty).err, empty)
    wording.check(headrace("init", tmp_path / "new", "--from", tmp_path / "none").err, tmp_path / "none")
    wording.check(headrace("init", tmp_path / "a", tmp_path / "b").err)
    wording.check(headrace("init", empty).err, "--from")
    assert not (tmp_path / "new").exists()


def test_the_settings_file_of_a_new_workspace_is_complete() -> None:
    lines = [line.removeprefix("# ") for line in settings_text().splitlines() if " = " in line]
    assert tomllib.loads("\n".join(lines)).keys() == {each.name for each in fields(Settings)}


def test_init_reports_that_it_cannot_write(tmp_path: Path, headrace: Command) -> None:
    (tmp_path / "file").write_text("")
    result = headrace("init", tmp_path / "file" / "inside")
    assert result.code == 1
    wording.check(result.err, tmp_path / "file")


def test_plan_and_apply(folder: Path, headrace: Command) -> None:
    plan = headrace("plan", "-w", folder)
    assert plan.code == 0
    assert "+ stream visits" in plan.out
    assert "+ view traffic" in plan.out
    assert headrace("plan", "-w", folder, "--exit-code").code == 4
    assert headrace("plan", "-w", folder, "--json").json["only_creates"] is True
    result = headrace("apply", "-w", folder)
    assert result.code == 2
    wording.check(result.err, "--yes")
    assert headrace("apply", "-w", folder, "--yes").out.endswith("Applied.\n")
    wording.check(headrace("plan", "-w", folder).out)
    assert headrace("plan", "-w", folder, "--exit-code").code == 0
    assert headrace("apply", "-w", folder, "--json").json["applied"] is False


def test_apply_refuses_a_change_of_the_type_of_a_field(applied: Path, headrace: Command) -> None:
    sql = applied / "definitions" / "shop.sql"
    sql.write_text(
        sql.read_text().replace("status  INT", "status  STRING").replace(">= 500", "= 'x'").replace("304", "''")
    )
    result = headrace("apply", "-w", applied, "--yes")
    assert result.code == 2
    wording.check(result.err, "visits")
    assert "! stream visits" in result.out


def test_every_error_in_definitions_has_its_line(folder: Path, headrace: Command) -> None:
    (folder / "definitions" / "bad.sql").write_text(
        "CREATE MATERIALIZED VIEW a AS SELECT count(*) AS n FROM vists;\n"
        "CREATE MATERIALIZED VIEW b AS SELECT median(bytes) AS m FROM visits;\n"
    )
    result = headrace("plan", "-w", folder)
    assert result.code == 2
    lines = result.err.splitlines()
    assert all(line.startswith(("error: ", "  ")) for line in lines)  # each with its line of the file and a caret
    assert [line.startswith("error: ") for line in lines].count(True) == 2
    assert "bad.sql:2:" in result.err
    as_json = headrace("plan", "-w", folder, "--json")
    assert orjson.loads(as_json.err)["error"]["code"] == "definition"
    assert as_json.out == ""


def test_send_without_a_server_writes_to_the_journal(applied: Path, headrace: Command) -> None:
    first = write_events(applied / "a.ndjson", visit(), visit(1))
    second = applied / "b.ndjson"
    second.write_bytes(orjson.dumps(visit(2)) + b"\nbroken")
    result = headrace("send", "visits", first, second, "-w", applied, "--json")
    assert result.json["accepted"] == 4
    assert result.json["token"].startswith("visits.")
    wording.check(headrace("send", "visits", first, "-w", applied).out, first, 2)
    [stream] = headrace("streams", "-w", applied, "--json").json
    assert stream["backlog_bytes"] > 0
    result = headrace("send", "visits", first, "-w", applied, "--wait")
    assert result.code == 1
    wording.check_line(result.err, "error")


def test_send_reports_errors(applied: Path, headrace: Command) -> None:
    file = write_events(applied / "a.ndjson", visit())
    empty = applied / "empty.ndjson"
    empty.write_text("\n \n")
    wording.check(headrace("send", "visits", applied / "none", "-w", applied).err, applied / "none")
    wording.check(headrace("send", "visits", empty, "-w", applied).err)
    wording.check(headrace("send", "visit", file, "-w", applied).err, "visit", "visits")


def test_send_applies_definitions_that_only_create_as_up_does(folder: Path, headrace: Command) -> None:
    file = write_events(folder / "a.ndjson", visit())
    wording.check(headrace("dead-letters", "visits", "-w", folder).err, "visits")  # which only reads
    assert "1 event sent" in headrace("send", "visits", file, "-w", folder).out
    assert headrace("plan", "-w", folder).out.startswith("No changes")


def test_send_to_a_stream_that_is_not_applied_yet(applied: Path, headrace: Command) -> None:
    definitions = applied / "definitions" / "shop.sql"
    definitions.write_text("CREATE STREAM others (id BIGINT);")
    file = write_events(applied / "a.ndjson", {"id": 1})
    wording.check(headrace("send", "others", file, "-w", applied).err, "others")


def test_status_streams_and_views_of_a_stopped_workspace(applied: Path, headrace: Command) -> None:
    wording.check(headrace("status", "-w", applied).out.splitlines()[0], "shop", "stopped")
    assert "visitor" in headrace("streams", "-w", applied).out
    assert "approx_count_distinct" in headrace("views", "-w", applied).out


def test_an_empty_workspace_prints_what_to_do(folder: Path, headrace: Command) -> None:
    wording.check(headrace("streams", "-w", folder).out)
    wording.check(headrace("views", "-w", folder).out)
    wording.check_line(headrace("status", "-w", folder).out, "views")


@pytest.mark.parametrize(
    ("arguments", "code", "values"),
    [
        (["asc"], 2, ["asc"]),
        (["ask"], 2, ["VIEW"]),
        (["ask", "traffic", "--wndow", "1h"], 2, ["--wndow"]),
        (["ask", "traffic", "--key", "page"], 2, ["page", "--key page=/home"]),
        (["ask", "traffic", "--start", "soon"], 2, ["start", "soon"]),
        (["up", "--port", "99999"], 2, ["--port", 99999]),
        (["ask", "traffic", "-w", "http://127.0.0.1:9"], 1, ["http://127.0.0.1:9"]),
        (["status", "-w", "/nowhere"], 1, ["/nowhere"]),
    ],
)
def test_an_error_is_one_line_or_json(headrace: Command, arguments: list[str], code: int, values: list[object]) -> None:
    result = headrace(*arguments)
    assert result.code == code
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    wording.check(result.err, *values)
    assert result.out == ""
    as_json = headrace(*arguments, "--json")
    if arguments[0] not in ("up", "asc"):
        assert orjson.loads(as_json.err)["error"]["message"]


def test_an_internal_error_shows_no_stack_trace(
    applied: Path, headrace: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of cheese\nand crackers")

    monkeypatch.setattr(Workspace, "open", fail)
    result = headrace("status", "-w", applied)
    assert result.err.count("\n") == 1
    wording.check(result.err, "RuntimeError: out of cheese", "HEADRACE_DEBUG=1")
    monkeypatch.setenv("HEADRACE_DEBUG", "1")
    assert "Traceback" in headrace("status", "-w", applied).err


def test_a_closed_pipe_is_not_an_error(applied: Path) -> None:
    process = subprocess.run(
        f"{HEADRACE} views --json -w {applied} | true", shell=True, capture_output=True, text=True, check=False
    )
    assert process.stderr == ""


def test_completion_is_offered(applied: Path) -> None:
    assert complete("headrace st") == {"status", "streams"}
    assert complete("headrace ask tr", applied) == {"traffic"}
    assert complete("headrace send ", applied) == {"visits"}
    assert complete("headrace dead-letters v", applied) == {"visits"}
    assert complete(f"headrace ask -w {applied} tr", applied.parent) == {"traffic"}
    assert complete("headrace ask tr", applied.parent) == set()


def test_completion_uses_the_data_folder_of_the_settings(applied: Path) -> None:
    (applied / "data").rename(applied / "elsewhere")
    assert complete("headrace ask tr", applied) == set()
    assert complete("headrace ask tr", applied, HEADRACE_DATA="elsewhere") == {"traffic"}
    (applied / "headrace.toml").write_text('data = "elsewhere"\n')
    assert complete("headrace send ", applied) == {"visits"}
    (applied / "headrace.toml").write_text("port = what")
    assert complete("headrace send ", applied) == set()


def complete(words: str, folder: Path | None = None, **environment: str) -> set[str]:
    position = str(len(words.split(" ")) - 1)
    variables = {"_HEADRACE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": position}
    process = subprocess.run(
        [str(HEADRACE)],
        capture_output=True,
        text=True,
        env={**os.environ, **variables, **environment},
        check=False,
        cwd=folder,
    )
    assert process.stderr == ""
    return set(process.stdout.split())
