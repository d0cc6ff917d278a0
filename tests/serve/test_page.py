"""The pages on the service and the systemd unit: every option, route and example is real."""

from __future__ import annotations

import configparser
import inspect
import re
import shlex
from pathlib import Path
from typing import get_type_hints

import pytest
from commands import call
from served import BUREAU, PAGES, Store, served

from emsco.cli.certify import certify
from emsco.cli.savings import savings
from emsco.cli.serve import serve
from emsco.cli.state import spend
from emsco.serve.openapi import description
from emsco.serve.problem_json import problem

ROOT = Path(__file__).parents[2]
NAMES = ("serving", "serving-api", "state", "rollout", "operations")
PAGE = "\n".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in NAMES)
UNIT = ROOT / "contrib" / "emsco.service"


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """Return a service that knows the keys of the page."""
    store = Store()
    for table in (PAGES, BUREAU):
        values = list(table.values())
        table |= {"a81f": values[0], "77c0": values[1]}
    with served(tmp_path_factory.mktemp("page"), store.sources) as running:
        yield running
    for table in (PAGES, BUREAU):
        del table["a81f"], table["77c0"]


def options(command):
    """Return the options of a command."""
    return {name.replace("_", "-") for name in inspect.signature(command).parameters}


def section(title):
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_all_options_are_on_the_page():
    named = {name for name in get_type_hints(serve) if name not in ("model", "return")}
    told = set(re.findall(r"`--([a-z-]+)`", section("Options")))
    assert told == {name.replace("_", "-") for name in named}
    for text in (PAGE, UNIT.read_text()):
        own = re.sub(r"python -m (experiments|benchmarks|tests\.soak)[^`\n]*", "", text)
        everywhere = set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", own))
        others = options(savings) | options(certify) | options(spend)
        assert everywhere <= told | {"now"} | others


def test_defaults_on_the_page_are_those_of_the_command():
    shown = call("serve", "--help").out
    shown, compared = " ".join(shown.split()), 0
    for row in section("Options").splitlines():
        cells = [cell.strip() for cell in row.split(" | ")]
        names = re.findall(r"`--([a-z-]+)`", cells[0])
        defaults = re.split(r", (?=[`\d])", cells[1].strip("|")) if len(cells) > 1 else []
        if len(names) != len(defaults):
            continue
        for name, default in zip(names, defaults, strict=True):
            value = default.strip("`").replace(",", "")
            if re.fullmatch(r"\d+(\.\d+)?", value):
                found = re.search(rf"--{name} <.*?\[default: ([^\]]+)\]", shown)
                assert found, name
                assert float(found[1]) == float(value)
                compared += 1
    assert compared >= 10


def test_all_routes_are_on_the_page(one):
    told = {route for _, route in re.findall(r"`(GET|POST) (/[^`]+)`", section("Routes"))}
    described = description(one.service.deployed, one.service.settings)
    assert told == {*described["paths"], "/openapi.json"}


def test_all_problems_are_on_the_page():
    """Those with a fixed text, and those that the code creates."""
    code = "".join(path.read_text() for path in (ROOT / "src/emsco/serve").glob("*.py"))
    made = set(re.findall(r'Problem\(\s*4\d\d,\s*"([a-z-]+)"', code))
    made |= set(re.findall(r'problem\("([a-z-]+)"\)', code)) | {"route", "method"}
    rows = section("Routes").partition("### Problems")[2]
    assert set(re.findall(r"`([a-z-]+)`", rows)) >= made - {"unexpected"}
    assert problem("unexpected").status == 500


def test_the_examples_work(one):
    commands = re.findall(r"^curl .*$", PAGE, flags=re.M)
    assert len(commands) == 3
    for command in commands:
        _, url, _, header, _, body = shlex.split(command)
        name, _, value = header.partition(": ")
        path = url.removeprefix("localhost:8000")
        answer = one.client.post(path, content=body, headers={name: value})
        assert answer.status_code == 200
        if path == "/v1/decide":
            assert all(told["accepted"] for told in answer.json()["decisions"])


def test_the_answer_has_the_fields_of_the_page(one):
    shown = set(re.findall(r'"(\w+)":', PAGE.partition("```json")[2].partition("```")[0]))
    answer = one.decide(key="a81f").json()
    assert shown == {*answer, *answer["decisions"][0]}


def test_the_unit_can_be_read_and_drains_long_enough():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(UNIT)
    own = unit["Service"]
    assert own["Type"] == "notify"
    assert own["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert float(own["TimeoutStopSec"]) > 30 + 5
    for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "DynamicUser"):
        assert own[name] == "yes"
