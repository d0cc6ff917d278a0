"""What people are told: one message that says what to do, and an exit code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import call, patients, without_reads, write_csv
from typer.main import get_command

import emsco
from emsco.cli._app import app
from emsco.cli._errors import in_shell
from emsco.exceptions import Code, Keyword, Parameter, Placeholder

NOTES = ("emsco: no --costs", "emsco: not used")  # told by the way, before anything goes wrong


def search(folder, *more, data="train.csv", label="state"):
    return call(
        "search", folder / data, "--label", label, "--costs", folder / "costs.toml",
        "--out", folder / "other", "--quiet", *more,
    )  # fmt: skip


def refused(called, *parts):
    """Check that a command ended with 2, one message of one line, and no traceback."""
    assert called.code == 2
    assert called.out == ""
    assert without_reads(called.err).startswith("emsco: ")
    assert without_reads(called.err).count("\n") == 1
    for part in parts:
        assert part in called.err


def test_a_wrong_column_is_answered_with_the_nearest_one(folder, tmp_path):
    """Of the label, of the prices, of kept columns and of a model's own."""
    refused(search(folder, label="stat"), "no column 'stat'; did you mean 'state'?")
    (tmp_path / "costs.toml").write_text("[sources]\nagee = 1\n")
    called = call(
        "search", folder / "train.csv", "--label", "state", "--costs", tmp_path / "costs.toml",
        "--out", tmp_path / "run",
    )  # fmt: skip
    refused(called, "no column 'agee'; did you mean 'age'?")
    rows = patients(5, 0).rename(columns={"scan": "scann"})
    write_csv(rows, tmp_path / "rows.csv")
    run = folder / "run"
    refused(call("select", run, "--max-missed", "sik=0.1"), "'sik'", "did you mean 'sick'?")
    for flag in ("--max-rejected", "--min-precision", "--error-cost"):
        refused(call("select", run, flag, "sik=0.1"), f"{flag} names 'sik'", "mean 'sick'?")
    fresh = ("--fresh", folder / "fresh.csv", "--label", "state")
    refused(call("show", run, *fresh, "--population", "sik=0.1"), "--population names 'sik'")
    page = ("--out", tmp_path / "page.html")
    refused(call("report", run, *page, *fresh, "--population", "sik=0.1"), "names 'sik'")
    refused(call("decide", run, folder / "fresh.csv", "--keep", "idd"), "did you mean 'id'?")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("search", "trian.csv", "--label", "y"), "no file trian.csv; did you mean 'train.csv'?"),
        (("costs", "init", "notes.docx", "--label", "y", "--out", "x"), "must end in one of .csv"),
        (("decide", "none.emsco", "train.csv"), "none.emsco cannot be loaded: No such file"),
        (("decide", "train.csv", "train.csv"), "train.csv cannot be loaded"),
        (("decide", "run", "train.csv", "--out", "x.xls"), "must end in one of .csv, .parquet"),
        (("decide", "run", "train.csv", "--out", "none/x.csv"), "No such file or directory"),
        (("show", "."), "has no search.emsco"),
        (("select", "run/model.emsco"), "does not contain a search"),
        (("select", "run", "--by", "costs"), "did you mean 'cost'?"),
        (("select", "run", "--error-cost", "5"), "--error-cost needs --by loss"),
        (("select", "run", "--by", "loss"), "give the costs a Review(cost)"),
        (("show", "run", "--fresh", "fresh.csv"), "give both"),
        (("show", "run", "--population", "sick=0.1"), "--population describes the rows of --fresh"),
        (("show", "run/model.emsco", "--fresh", "fresh.csv"), "is one of its models"),
        (
            ("show", "run", "--fresh", "fresh.csv", "--label", "state", "--population", "sick=2"),
            "--population of 'sick' must be from 0 to 1",
        ),
        (
            ("certify", "run", "fresh.csv", "--label", "state"),
            "Give at least one target to certify: --accuracy",
        ),
        (("search", "train.csv", "--label", "marker"), "Row"),
        (("search", "train.csv", "--label", "id", "--costs", "costs.toml"), "--cv 5 needs 5 rows"),
        (("search", "train.csv", "--label", "state", "--costs", "none.toml"), "emsco costs init"),
        (("search", "train.csv", "--label", "state", "--costs", "bad.toml"), "is not valid TOML"),
        (("search", "train.csv", "--label", "scan", "--costs", "costs.toml"), "which is the label"),
        (("search", "train.csv", "--label", "state", "--out", "costs.toml"), "cannot be a folder"),
        (("decide", "run", "ragged.csv"), "but row 0 (line 2) has 2 cells"),
        (("decide", "run", "latin.csv"), "is not UTF-8 text"),
        (("decide", "run", "empty.csv"), "must begin with a line that names its columns"),
        (("decide", "run", "broken.parquet"), "broken.parquet cannot be read"),
        (("decide", "run", "cr.csv"), "cr.csv ends its lines with carriage returns only"),
        (("decide", "run", "quoted-cr.csv"), "-cr.csv ends its lines with carriage returns only"),
        (("decide", "run", "open.csv"), "open.csv has a quote in line 3 that is not closed there"),
        (("decide", "run", "cell.csv"), "cell.csv has a row longer than 4 MB; is a quote left"),
        (("decide", "run", "head.csv"), "begins with a line longer than 4 MB"),
        (("decide", "run", "wide.csv"), "wide.csv begins with a line longer than 4 MB"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_told_in_one_line(folder, monkeypatch, arguments, part):
    """Exit code 2, on standard error, without a traceback."""
    monkeypatch.chdir(folder)
    (folder / "notes.docx").write_text("x")
    (folder / "bad.toml").write_text("[sources\nage = 1")
    header = "age,smoker,town,visits,marker,scan\n"
    (folder / "ragged.csv").write_text(f"{header}1,true\n")
    (folder / "latin.csv").write_bytes(header.replace("town", "größe").encode("latin-1"))
    (folder / "empty.csv").write_text("")
    (folder / "broken.parquet").write_text("PAR1 not")
    (folder / "cr.csv").write_bytes(f"{header}1,true,Bern,1,2,3\n".replace("\n", "\r").encode())
    (folder / "quoted-cr.csv").write_bytes(b'"age","smoker"\r1,true\r')
    row = "1,true,Bern,1,2,3\n"
    (folder / "open.csv").write_text(f'{header}{row}1,true,"Bern,1,2,3\n{row * 500_000}')
    (folder / "cell.csv").write_text(f"{header}{row}1,true,{'x' * 50_000_000},1,2,3\n{row * 99}")
    (folder / "head.csv").write_text(f"{'x' * 50_000_000},age\n{row}")
    (folder / "wide.csv").write_text(",".join(f"x{i}" for i in range(800_000)) + f"\n{row}")
    if arguments[0] == "search" and "--out" not in arguments:
        arguments += ("--out", "another")  # the folder `run` is there
    called = call(*arguments)
    notes = [line for line in called.err.splitlines(keepends=True) if line.startswith(NOTES)]
    refused(called._replace(err=called.err.removeprefix("".join(notes))), part)


def test_numbers_with_a_few_words_among_them_are_told(tmp_path):
    """A "?" turns a column of numbers into text, which nobody means."""
    frame = patients(200, 0).astype({"scan": object})
    frame.loc[[3, 4], "scan"] = "?"
    path = write_csv(frame, tmp_path / "rows.csv")
    called = call("costs", "init", path, "--label", "state", "--out", tmp_path / "costs.toml")
    assert called.code == 0
    assert "'scan' is read as text, because of '?' among its numbers" in called.err


@pytest.mark.parametrize("flag", ["--max-missed", "--max-rejected", "--min-precision"])
@pytest.mark.parametrize("share", ["sick", "sick=much", "=0.1x", "sick=nan", "sick=-1"])
def test_a_share_by_label_must_look_like_one(folder, flag, share):
    """A wrong option is typer's own message."""
    called = call("select", folder / "run", flag, share)
    assert called.code == 2
    assert f"{flag} takes LABEL=SHARE" in called.err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--error-cost", "5", "--error-cost", "6"), "--error-cost takes one price, or a label"),
        (("--error-cost", "5", "--error-cost", "sick=6"), "--error-cost takes one price, or a lab"),
        (("--error-cost", "dear"), "--error-cost takes a price of 0 or more, or LABEL=PRICE"),
        (("--error-cost", "sick=dear"), "--error-cost takes LABEL=PRICE, such as sick=500"),
        (("--error-cost", "sick=1", "--error-cost", "sick=2"), "names 'sick' twice"),
        (("--max-missed", "sick=0.1", "--max-missed", "sick=0.2"), "names 'sick' twice"),
        (("--caution", "careful"), "--caution takes auto or a number of standard errors >= 0"),
        (("--caution", "-1"), "--caution takes auto or a number of standard errors >= 0"),
    ],
)
def test_options_that_cannot_be_read_are_named(folder, arguments, part):
    called = call("select", folder / "run", *arguments)
    assert called.code == 2
    assert part in " ".join(called.err.split())


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        (Parameter("caution") + " must be 'auto'", "--caution must be 'auto'"),
        (Code("choose(caution=0)") + " the cheapest", "`emsco select --caution 0` the cheapest"),
        ("Without the margin, " + Keyword("caution", 0), "Without the margin, --caution 0"),
        (Keyword("caution", "auto") + " asks", "--caution auto asks"),
        ("within " + Keyword("max_rejected", {1: 0.1}), "within --max-rejected 1=0.1"),
        (
            "Set " + Placeholder("max_rejected", {"label": "share"}) + ".",
            "Set --max-rejected LABEL=SHARE.",
        ),
        (Keyword("max_missed", {"a": 0.1, "b c": 1}), "--max-missed a=0.1 --max-missed 'b c=1'"),
        ("pass " + Keyword("trusted", ["a.B", "c.D"]), "pass `--trust a.B --trust c.D`"),
        ("or " + Keyword("final_fitted_elsewhere", True), "or --final-fitted-elsewhere"),
        ("as " + Keyword("groups") + ".", "as --groups."),
        (Keyword("max_spend", 12.0), "--max-spend 12"),
        (Code("fit(X)") + " of `caution`", "fit(X) of `caution`"),
    ],
)
def test_words_of_python_are_said_in_words_of_the_shell(python, shell):
    assert in_shell(python) == shell


def test_what_messages_name_is_an_option():
    """Every parameter that the library marks in a message has an option, and every call a word."""
    source = "".join(path.read_text() for path in Path(emsco.__file__).parent.rglob("*.py"))
    options = {option for command in _commands(get_command(app)) for option in command}
    kinds = r"(?<!isinstance\(part, )\b(?:Parameter|Keyword|Placeholder)"
    named = set(re.findall(kinds + r'\(\s*"(\w+)"', source))
    assert len(named) > 10
    for name in named:
        assert in_shell(Parameter(name)) in options | {"`emsco select`"}
    calls = set(re.findall(r'\bCode\(\s*"([^"]+)"', source))
    assert len(calls) > 3
    assert all(in_shell(Code(call)) != call for call in calls)


def _commands(command):
    yield {option for param in command.params for option in param.opts}
    for one in getattr(command, "commands", {}).values():
        yield from _commands(one)


def test_help_fits_a_terminal_and_names_every_command():
    """No line is cut, and every command is listed."""
    text = call("--help").out
    assert max(map(len, text.splitlines())) <= 80
    assert "..." not in text.partition("Commands:")[2]
    for name in ("costs", "search", "show", "select", "certify", "decide", "report"):
        assert f"\n  {name} " in text
        assert call(name, "--help").code == 0
    assert call("--version").out.startswith("emsco 0.")
