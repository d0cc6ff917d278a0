"""What maintainers rely on: commands that exist, workflows, a history of ratios."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RELEASING = (ROOT / "docs" / "releasing.md").read_text(encoding="utf-8")
WORKFLOWS = {
    path.name: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in (ROOT / ".github" / "workflows").glob("*.yml")
}
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.MULTILINE))


def history():
    spec = importlib.util.find_spec("benchmarks.history")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def steps(workflow, job):
    return WORKFLOWS[workflow]["jobs"][job]["steps"]


def commands(workflow, job):
    return "\n".join(step["run"] for step in steps(workflow, job) if "run" in step)


@pytest.mark.parametrize("text", [CONTRIBUTING, RELEASING], ids=["contributing", "releasing"])
def test_every_make_target_that_is_named_exists(text):
    named = set(re.findall(r"make ([a-z-]+)", re.sub(r"make it\b", "", text)))
    assert named
    assert named <= TARGETS


def test_the_path_of_contributors_is_four_commands_with_files_that_exist():
    block = re.search(r"```console\n(.*?)```", CONTRIBUTING, flags=re.DOTALL)[1]
    path = [line.removeprefix("$ ") for line in block.splitlines()]
    assert len(path) == 4
    assert path[-1] == "make quick"
    (file,) = re.findall(r"--requirement (\S+)", block)
    assert (ROOT / file).exists()
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert asked.removeprefix(">=") in path[0]


def test_every_push_is_checked_by_the_script_of_the_repository():
    triggers = WORKFLOWS["check.yml"][True]  # YAML reads the word `on` so
    assert {"push", "pull_request"} <= triggers.keys()
    assert "bash .ci/run" in commands("check.yml", "run")
    text = (ROOT / ".github" / "workflows" / "check.yml").read_text()
    assert "marker `data`" in text, "it says what is left out, and how"


def test_workflows_use_targets_and_files_that_exist():
    for name, workflow in WORKFLOWS.items():
        for job in workflow["jobs"]:
            told = commands(name, job)
            assert set(re.findall(r"\bmake ([a-z-]+)", told)) <= TARGETS
            for file in re.findall(r"--requirement (\S+)", told):
                if file != "requirements/docs.txt":  # pinned when the group is
                    assert (ROOT / file).exists(), file


def test_only_the_job_that_publishes_may_write():
    release = WORKFLOWS["release.yml"]
    assert WORKFLOWS["check.yml"]["permissions"] == {"contents": "read"}
    assert release["permissions"] == {"contents": "read"}
    assert not {"permissions"} & {*release["jobs"]["build"], *release["jobs"]["wheels"]}
    publish = release["jobs"]["publish"]
    assert publish["permissions"]["id-token"] == "write"
    assert publish["environment"] == "pypi"
    assert publish["needs"] == ["build", "wheels", "sbom"]


def test_a_release_is_tested_compared_and_attested_before_it_is_published():
    told = commands("release.yml", "build")
    for part in ("GITHUB_REF_NAME", "CHANGELOG.md", "make release-check", "pytest"):
        assert part in told
    used = [
        step["uses"].partition("@")[0] for step in steps("release.yml", "publish") if "uses" in step
    ]
    attested = used.index("actions/attest-build-provenance")
    assert attested < used.index("pypa/gh-action-pypi-publish")
    secrets = str(WORKFLOWS["release.yml"])
    assert "secrets." not in secrets, "trusted publishing stores no token"


def test_builds_take_the_time_of_the_commit():
    assert "SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)" in MAKEFILE


def test_the_history_has_one_line_per_version_and_ratios_only():
    made = history()
    lines = made.load()
    assert lines
    versions = [line["version"] for line in lines]
    assert len(set(versions)) == len(versions)
    assert set(lines[0]) == {"version", "date", *made.REFERENCES}
    for line in lines:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", line["date"])
        assert all(float(line[name]) > 0 for name in made.REFERENCES)
    assert {column for column, _ in made.COLUMNS.values()} == set(made.REFERENCES)


def test_a_line_of_the_history_is_made_of_results(tmp_path, monkeypatch):
    made = history()
    results = [
        made.Result(name, 4.0) for name in made.COLUMNS
    ] + [made.Result("something else", 9.0)]  # fmt: skip
    line = made.line_of(results, "9.9.9", "2030-01-01")
    for name, (column, inverse) in made.COLUMNS.items():
        assert line[column] == ("0.25" if inverse else "4"), name
    monkeypatch.setattr(made, "FILE", tmp_path / "history.csv")
    made.write([line])
    assert made.load() == [line]
    assert "| 9.9.9 |" in made.table([line]).splitlines()[0]


def test_results_of_the_history_are_named_as_benchmarks_name_them():
    """A title that is changed there would leave a hole here."""
    code = "".join(path.read_text() for path in (ROOT / "benchmarks").glob("[!h]*.py"))
    for title in history().COLUMNS:
        fixed = re.split(r"Credit|the example|csv|parquet", title)
        assert all(part in code for part in fixed), title
