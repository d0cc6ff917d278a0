"""An open quote in CSV is refused by its line: it would join rows without a word."""

from __future__ import annotations

import io
import re

import pytest
from commands import call

from emsco.cli._csv_quotes import QuoteCheck, QuotedCells
from emsco.exceptions import ArtifactError

HEAD = "id,age,smoker,town,visits,marker,scan,state"


@pytest.fixture
def lines(folder):
    """Give the lines of 2,000 fresh rows, with the head and without any quote."""
    return (folder / "fresh.csv").read_text().replace('"Chur, GR"', "Chur").splitlines()


def write(path, lines):
    path.write_text("\n".join([*lines, ""]))
    return path


def test_the_number_of_rows_that_were_read_is_printed(folder, tmp_path):
    """By every command that reads a table, on standard error."""
    fresh, run = folder / "fresh.csv", folder / "run"
    commands = {
        "decide": ("decide", run, fresh),
        "decide Parquet": ("decide", run, folder / "fresh.parquet"),
        "show": ("show", run, "--fresh", fresh, "--label", "state"),
        "certify": ("certify", run, fresh, "--label", "state", "--accuracy", 0.7),
        "init": ("costs", "init", fresh, "--label", "state", "--out", tmp_path / "costs.toml"),
        "report": (
            "report", run, "--fresh", fresh, "--label", "state", "--out", tmp_path / "page.html",
        ),
    }  # fmt: skip
    for name, command in commands.items():
        called = call(*command)
        assert called.code in (0, 1), called.err
        ending = "parquet" if "Parquet" in name else "csv"
        assert called.err.count(f"Read: 2,000 rows of {folder / f'fresh.{ending}'}.\n") == 1, name
    assert f"Read: 600 rows of {folder / 'train.csv'}.\n" in (folder / "search.err").read_text()


def test_an_open_quote_in_the_last_column_is_refused_by_its_line(folder, tmp_path, lines):
    """Of 2,000 rows, 501 would be decided; the rest would be one cell of text."""
    lines[500] = re.sub(r",(\w+)$", r',"\1', lines[500])
    path = write(tmp_path / "rows.csv", lines)
    commands = (
        ("decide", folder / "run", path, "--keep", "state"),
        ("search", path, "--label", "state", "--out", tmp_path / "run"),
        ("certify", folder / "run", path, "--label", "state", "--accuracy", 0.7),
    )
    for command in commands:
        called = call(*command)
        assert called.code == 2, command
        assert f"{path} has a quote in line 501 that is not closed there" in called.err
    called = call(*commands[0], "--newlines-in-cells")
    assert called.code == 2
    assert f"{path} ends inside a quote that begins in line 501; close it" in called.err


def test_a_stray_pair_of_quotes_is_refused_by_its_line(folder, tmp_path, lines):
    """It would join the lines between them."""
    lines[500] = re.sub(r",(\w+)$", r',"\1', lines[500])
    lines[503] += '"'
    called = call("decide", folder / "run", write(tmp_path / "rows.csv", lines))
    assert called.code == 2
    assert "has a quote in line 501 that is not closed there" in called.err


def test_line_breaks_in_cells_are_read_with_the_option(folder, tmp_path, lines):
    """They are refused without it, also in names; every row is decided with it."""
    lines = [line.replace("Chur", '"Chur,\nGR"') for line in lines]
    first = next(number for number, line in enumerate(lines) if "\n" in line) + 1
    for head in (lines[0], lines[0].replace("id", '"i\nd"')):
        path = write(tmp_path / "rows.csv", [head, *lines[1:]])
        called = call("decide", folder / "run", path)
        assert called.code == 2
        line = first if head == lines[0] else 1
        assert f"has a quote in line {line} that is not closed there" in called.err
        called = call("decide", folder / "run", path, "--newlines-in-cells")
        assert called.code == 0, called.err
        assert called.out.count("\n") == 2001
        assert f"Read: 2,000 rows of {path}." in called.err


def test_a_quote_within_a_cell_is_a_character(folder, tmp_path, lines):
    """As in 5" for inches: it opens nothing."""
    lines[7] = lines[7].replace(lines[7].split(",")[0], '5" by 6"')
    lines[9] = lines[9].replace(lines[9].split(",")[0], '5"')
    path = write(tmp_path / "rows.csv", lines)
    called = call("decide", folder / "run", path, "--keep", "id")
    assert called.code == 0
    assert [line.split(",")[0] for line in called.out.splitlines()[7:10:2]] == [
        '"5"" by 6"""',
        '"5"""',
    ]


def test_a_head_that_never_ends_is_refused(folder, tmp_path, lines):
    """With and without the option."""
    path = write(tmp_path / "rows.csv", [f'"{HEAD}', *lines[1:]])
    assert "has a quote in line 1" in call("decide", folder / "run", path).err
    called = call("decide", folder / "run", path, "--newlines-in-cells")
    assert called.code == 2
    assert "ends inside a quote that begins in line 1" in called.err


TEXTS = (
    '1,"x\n2,y\n', '1,a"x\n2,"y\n', '1,"x""\ny"\n2,y', '"a",""\n"b","c ""d"""\n',
    '1,"a"b"\n2,"c\n"', '1,x\n2,"y', '"\n"\n"\n"\n', '5","\n"', '1,"x\ry"\n',
    'a"\n,"b\n', '"""\n""",\n"', '',
)  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_quotes_are_those_of_one_character_after_the_other(text, size):
    """In pieces of any size, with and without quotes inside cells."""
    broken, is_open = one_by_one(text)
    found = QuotedCells(",").broken(text.encode())
    assert sorted({text.count("\n", 0, start) for start, _ in found}) == broken
    assert any(end is None for _, end in found) == is_open
    for allowed, is_refused in ((False, bool(broken)), (True, is_open)):
        stream = io.BytesIO(text.encode())
        check = QuoteCheck(stream, "rows.csv", ",", line=1, newlines_in_cells=allowed)
        try:
            while check.read(size):
                pass
        except ArtifactError as error:
            line = int(re.search(r"in line (\d+)", str(error))[1])
            assert line - 1 == (broken[-1] if allowed else broken[0])
            assert is_refused
        else:
            assert not is_refused


def one_by_one(text):
    """Return the lines in which broken cells begin, and whether the last one is still open."""
    broken, state, line, begun = [], "start", 0, 0
    for place, character in enumerate(text):
        if state == "quoted":
            if character == '"':
                state = "quote" if text[place + 1 : place + 2] == '"' else "cell"
            elif character in "\r\n":
                broken.append(begun)
        elif state == "quote":  # the second of a pair; where the quote goes on
            state = "quoted"
        elif character == '"' and state == "start":
            state, begun = "quoted", line
        else:
            state = "start" if character in ",\r\n" else "cell"
        line += character == "\n"
    is_open = state in ("quoted", "quote")
    return sorted({*broken, *([begun] if is_open else [])}), is_open
