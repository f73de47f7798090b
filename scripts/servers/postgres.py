"""One PostgreSQL server, of Debian's packages."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Any

from .folder import Folder
from .process import Failed, NotAvailable, State, choose_port, install, require_free, run, start, tail


def find_postgres() -> Path:
    """The folder of initdb and postgres: Debian keeps them away from PATH."""

    def find() -> Path | None:
        debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
        found = shutil.which("initdb")
        return debian[-1].parent if debian else Path(found).resolve().parent if found else None

    if not find():
        install("postgres", "postgresql", "PostgreSQL")
    programs = find()
    if not programs:
        raise NotAvailable("postgres: Debian's package is installed, but initdb was not found in /usr/lib/postgresql")
    return programs


def server_user(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses root: root runs it as the user postgres, or nobody."""
    if os.geteuid() != 0:
        return {}
    names = {user.pw_name: user for user in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    how: dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": ()}
    if subprocess.run(["test", "-x", str(folder)], check=False, cwd="/", **how).returncode:
        raise Failed(
            f"postgres: the user {user.pw_name!r}, as which PostgreSQL runs, may not enter {folder}; "
            "choose a folder that all may enter with --folder"
        )
    return how


def up_postgres(home: Folder, state: State | None, port: int | None) -> State:
    programs = find_postgres()
    how = server_user(home.path)
    folder = home.path / "postgres"
    data = folder / "data"
    if state is None:
        number, password = choose_port("postgres", port), secrets.token_urlsafe(12)
        state = {"port": number, "user": "headrace", "password": password, "database": "headrace"}
        state |= {"folder": str(folder), "log": str(folder / "postgres.log")}
        state["url"] = f"postgresql://headrace:{password}@127.0.0.1:{number}/headrace"
    require_free("postgres", state["port"])
    folder.mkdir(exist_ok=True)
    if how:
        os.chown(folder, how["user"], how["group"])
    home.put("postgres", state)
    if not (folder / "ready").exists():  # or a first start was interrupted
        shutil.rmtree(data, ignore_errors=True)
        make_database(programs, state, how)
    (data / "postmaster.pid").unlink(missing_ok=True)  # of a process that was killed; its number may be in use again
    text = str(state["port"])
    options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "shared_buffers": "64MB"}
    command = [str(programs / "postgres"), "-D", str(data), "-p", text]
    command += [f"--{name}={value}" for name, value in options.items()]
    check = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", text]
    start("postgres", state, command, lambda _: not subprocess.run(check, check=False).returncode, **how)
    return state


def make_database(programs: Path, state: State, how: dict[str, Any]) -> None:
    """A new cluster with one database of the same name as its user."""
    folder, data = Path(state["folder"]), Path(state["folder"]) / "data"
    password = folder / "password"
    password.touch(mode=0o600)
    password.write_text(state["password"])
    if how:
        os.chown(password, how["user"], how["group"])
    command = [str(programs / "initdb"), "-D", str(data), "-U", state["user"], f"--pwfile={password}"]
    command += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions"]
    try:
        run("postgres", "making a database", command, cwd=folder, **how)
    finally:
        password.unlink()
    single = [str(programs / "postgres"), "--single", "-D", str(data), "postgres"]
    made = subprocess.run(
        single,
        input=f"CREATE DATABASE {state['database']}\n",
        text=True,
        capture_output=True,
        check=False,
        cwd=folder,
        **how,
    )
    if made.returncode:
        raise Failed(f"postgres: the database was not made: {tail(made.stderr)}")
    (folder / "ready").touch()
