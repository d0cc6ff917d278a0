"""Workflows run nothing that somebody else may exchange, least of all where a release is signed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / ".github").rglob("*.y*ml"))
WORKFLOWS = {
    path.name: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in FILES
    if path.parent.name == "workflows"
}
JOBS = [(name, job) for name, workflow in WORKFLOWS.items() for job in workflow["jobs"]]
PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40} +# v\d+\.\d+\.\d+")


def job_of(workflow, job):
    """Give a job, with the permissions that it has."""
    whole = WORKFLOWS[workflow]
    found = whole["jobs"][job]
    return found, found.get("permissions", whole.get("permissions"))


def commands(job):
    """Give all that a job runs."""
    return "\n".join(step["run"] for step in job["steps"] if "run" in step)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_action_is_a_commit_with_its_version_beside_it(path):
    """A tag can be moved to other code; a commit cannot."""
    lines = path.read_text(encoding="utf-8").splitlines()
    used = [line.partition("uses:")[2].strip() for line in lines if re.match(r"\s*-? *uses:", line)]
    assert [action for action in used if not PINNED.fullmatch(action)] == []
    assert used or path.parent.name != "workflows"


def test_an_action_has_one_commit_everywhere():
    """So that an update is one change."""
    found = {}
    for path in FILES:
        for action, commit in re.findall(r"uses: ([\w./-]+)@(.*)", path.read_text("utf-8")):
            found.setdefault(action, set()).add(commit)
    assert found
    assert {action: own for action, own in found.items() if len(own) > 1} == {}


@pytest.mark.parametrize(("workflow", "job"), JOBS)
def test_what_is_installed_is_pinned_by_hash(workflow, job):
    """Only the wheel itself, whose dependencies users get as they are, is not."""
    told = commands(job_of(workflow, job)[0])
    for line in told.splitlines():
        if re.search(r"\bpip install\b", line):
            assert "--require-hashes" in line or ".whl" in line, line


@pytest.mark.parametrize(("workflow", "job"), JOBS)
def test_a_job_that_may_write_installs_and_builds_nothing(workflow, job):
    """What it runs could sign and publish whatever it likes."""
    found, permissions = job_of(workflow, job)
    if set(permissions.values()) == {"read"}:
        return
    told = commands(found)
    assert not re.search(r"\b(pip|uv|npm|curl|wget|python|make|cyclonedx-py)\b", told), told


def test_the_list_of_what_is_installed_is_made_in_a_job_of_its_own():
    """It installs every dependency: it may read, and what is published does not pass through it."""
    jobs = WORKFLOWS["release.yml"]["jobs"]
    making = [name for name, job in jobs.items() if "cyclonedx-py" in commands(job)]
    assert making == ["sbom"]
    sbom, permissions = job_of("release.yml", "sbom")
    assert permissions == {"contents": "read"}
    assert "--require-hashes --requirement requirements/sbom.txt" in commands(sbom)
    kept = {
        name: [s["with"]["name"] for s in job["steps"] if "upload-artifact" in s.get("uses", "")]
        for name, job in jobs.items()
    }
    assert kept == {
        "build": ["release-sdist"],
        "wheels": ["release-${{ matrix.machine }}"],
        "sbom": ["sbom"],
        "publish": [],
    }


def test_the_tools_are_pinned_by_hash():
    """Each line of requirements has at least one."""
    text = (ROOT / "requirements" / "sbom.txt").read_text("utf-8")
    pins = re.findall(
        r"^([a-z0-9-]+)(?:\[[a-z,-]+\])?==\S+ \\\n    --hash=sha256:", text, re.MULTILINE
    )
    assert "cyclonedx-bom" in pins
    assert len(pins) == text.count("==")
