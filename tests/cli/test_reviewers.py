"""`label` for people: files that survive spreadsheets, several reviewers, and what they dispute."""

from __future__ import annotations

import csv
import json
import shutil
import sqlite3
from codecs import BOM_UTF8
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import call
from sklearn.metrics import cohen_kappa_score

from emsco.batch import BatchLabels
from emsco.batch.answers_store import JobStore
from emsco.cli import _label_job
from emsco.cli._label_words import LabelWords
from emsco.cli._reviewer_answers import agreement_notes, cohens_kappa
from emsco.cli._spreadsheet import SentRows, header_with_labels, needs_codes, row_codes

N_ROWS = 1000
HEADER = "label (No / Yes)"
OWN = ("--answers", "cheap", "--trust", "trust", "--known", "seen", "--agreement", 0.9)
FORMULAS = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    " =1",
    "\uff1d1",
    'a;=HYPERLINK("x")',
]


@pytest.fixture(autouse=True)
def rows(tmp_path, monkeypatch):
    """Make rows whose keys no spreadsheet leaves as they are, and texts that it would run."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    trust = 1 - rng.random(N_ROWS) ** 2 / 2
    truth = np.where(rng.random(N_ROWS) < 0.3, "Yes", "No")
    other = np.where(truth == "Yes", "No", "Yes")
    frame = pd.DataFrame({"id": [f"{row // 2:06}" if row % 2 else f"{row // 2}"
                                 for row in range(N_ROWS)]})  # fmt: skip
    frame["text"] = [f'{FORMULAS[row % 8]} says "{row}"' for row in range(N_ROWS)]
    frame["size"] = rng.integers(-50, 50, N_ROWS)
    frame["cheap"] = np.where(rng.random(N_ROWS) > trust, other, truth)
    frame["trust"] = trust.round(6)
    frame["seen"] = np.where(np.arange(N_ROWS) % 50, "", truth)
    frame.to_csv("rows.csv", index=False)
    frame[["id"]].assign(truth=truth).to_csv("truth.csv", index=False)
    begun()


def begun(job="job"):
    return done("begin", "rows.csv", *OWN, "--key", "id", "--price", 2, "--out", job)


def done(*arguments):
    called = call("label", *arguments)
    assert called.code == 0, called.err
    return called


def refused(*parts, options=()):
    called = call("label", "next", "job", *options)
    assert called.code == 2, called
    for part in parts:
        assert part in called.err, called.err


def read(path):
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def truth_of():
    return dict(read("truth.csv").itertuples(index=False))


def answered(name="ask-1.csv"):
    """Return a file of rows with the column filled in as the truth is."""
    ask, truth = read(f"job/{name}"), truth_of()
    return ask.assign(**{ask.columns[-1]: [truth[key] for key in ask["id"]]})


def flipped(frame, places):
    """Change the labels at some places."""
    labels = frame[HEADER].to_numpy(dtype=object).copy()
    labels[places] = np.where(labels[places] == "Yes", "No", "Yes")
    return frame.assign(**{HEADER: labels})


def recorded():
    """Return the answers that the job has, by key."""
    keys = read("rows.csv")["id"]
    with closing(sqlite3.connect("job/job.sqlite")) as database:
        found = database.execute("SELECT row, label FROM answer").fetchall()
    return {keys[row]: json.loads(label) for row, label in found}


def excel(text):
    """Change a cell as Excel does when it opens and saves CSV."""
    try:
        number = float(text)
    except ValueError:
        return text
    return f"{number:.5E}" if abs(number) >= 1e11 else f"{number:g}"


# What is sent ------------------------------------------------------------------------------------


def test_what_is_sent_is_made_for_people():
    """Shuffled; neither cheap answers, trust nor known ones; a column to fill in; no formula."""
    ask, given = read("job/ask-1.csv"), read("rows.csv").set_index("id")
    assert ask.columns.tolist() == ["id", "text", "size", "row_code", HEADER]
    assert set(ask[HEADER]) == {""}
    places = given.index.get_indexer(ask["id"])
    assert abs(np.corrcoef(places, np.arange(len(places)))[0, 1]) < 0.2
    cheap, trust = given["cheap"].to_numpy()[places], given["trust"].to_numpy(float)[places]
    assert abs(np.corrcoef(trust, np.arange(len(trust)))[0, 1]) < 0.2
    assert abs(np.corrcoef(cheap == "Yes", np.arange(len(cheap)))[0, 1]) < 0.2
    assert (ask["size"] == given["size"].to_numpy()[places]).all(), "numbers stay"
    assert ask["row_code"].is_unique
    assert ask["row_code"].str.fullmatch("[bcdfghjkmnpqrstvwxyz]{14}").all()
    shown = dict(zip(given["text"].to_numpy()[places], ask["text"], strict=True))
    for text, written in shown.items():
        assert written.replace("'", "") == text.replace("'", "")
        if text.startswith("a;"):
            assert written.startswith("a;'=")
        else:
            assert written.startswith("'")


def test_names_of_columns_and_keys_are_no_formulas_either():
    frame = read("rows.csv").rename(columns={"text": "=text"})
    frame["id"] = [f"={row}" for row in range(N_ROWS)]
    frame.to_csv("rows.csv", index=False)
    shutil.rmtree("job")
    begun()
    ask = read("job/ask-1.csv")
    assert ask.columns[1] == "'=text"
    assert ask["id"].str.startswith("'=").all()
    frame = ask.assign(**{HEADER: "No"})
    frame.loc[::2, "id"] = frame["id"].str.removeprefix("'")  # as the online ones save it
    frame.drop(columns="row_code").to_csv("job/answers-1.csv", index=False)
    done("next", "job")
    assert Path("job/ask-2.csv").exists()


def test_letters_beyond_ascii_are_marked_as_utf_8():
    """Else a spreadsheet shows them as other letters, and people answer about these."""
    assert Path("job/ask-1.csv").read_bytes().startswith(BOM_UTF8)
    frame = read("rows.csv").assign(text="plain")
    frame.to_csv("plain.csv", index=False)
    done("begin", "plain.csv", *OWN, "--key", "id", "--out", "plain")
    assert Path("plain/ask-1.csv").read_bytes().startswith(b"id,text")


def test_labels_that_spreadsheets_write_in_capitals_are_read():
    frame = read("rows.csv")
    names = {"Yes": "true", "No": "false", "": ""}
    frame["cheap"], frame["seen"] = frame["cheap"].map(names), frame["seen"].map(names)
    frame.to_csv("rows.csv", index=False)
    shutil.rmtree("job")
    begun()
    filled = answered()
    labels = filled[filled.columns[-1]].map(names)
    filled[filled.columns[-1]] = labels.str.upper()
    filled.to_csv("job/answers-1.csv", index=False)
    done("next", "job")
    assert recorded() == dict(zip(filled["id"], labels, strict=True))
    words = LabelWords(["true", "True"])
    assert words.read("TRUE") == "TRUE"
    assert LabelWords(["Yes"]).read("YES") == "YES"


def test_labels_of_which_a_spreadsheet_makes_one_are_refused():
    for one, other in (("1", "01"), ("0.5", "0,5"), ("1e3", "1000")):
        frame = read("rows.csv")
        frame["cheap"] = frame["cheap"].map({"Yes": one, "No": other})
        frame.to_csv("alike.csv", index=False)
        options = ("--answers", "cheap", "--trust", "trust", "--agreement", 0.9, "--key", "id")
        called = call("label", "begin", "alike.csv", *options, "--out", f"job-{one}")
        assert called.code == 2
        assert "or are the same number" in called.err
        done("begin", "alike.csv", *options, "--new-label", other, "--out", f"job-{one}")


def test_rows_without_strange_keys_have_no_codes():
    assert not needs_codes(["0", "17", "12345678901"])
    for key in ("007", "1e5", "123456789012", "3-4", "1.0", "a", "-1", "=1"):
        assert needs_codes(["1", key])
    done("begin", "rows.csv", *OWN, "--out", "numbered")
    assert read("numbered/ask-1.csv").columns.tolist() == ["row", "id", "text", "size", HEADER]


def test_columns_of_the_files_must_be_free():
    for name in ("row_code", "label (old)"):
        read("rows.csv").rename(columns={"text": name}).to_csv("other.csv", index=False)
        called = call("label", "begin", "other.csv", *OWN, "--key", "id", "--out", "other")
        assert called.code == 2
        assert f"has a column {name!r}" in called.err


def test_a_header_names_few_of_many_labels():
    assert header_with_labels("said", ["b", "a\n", "a"]) == "said (a / b)"
    header = header_with_labels("label", [f"label {i:03}" for i in range(500)])
    assert len(header) < 300
    assert header.endswith(" / 478 more)")


# What spreadsheets make of it --------------------------------------------------------------------


def as_excel(frame, path):
    """Write as German Excel: semicolons, a mark, empty lines and columns, changed cells."""
    frame = frame.map(excel).assign(**{"": "", " ": ""})
    frame.loc[len(frame)] = ""
    frame.loc[len(frame)] = ""
    frame.to_csv(path, index=False, sep=";", encoding="utf-8-sig", lineterminator="\r\n")


def as_libreoffice(frame, path):
    """Write every cell in quotes, with Unix lines, and keys as numbers."""
    frame.assign(id=frame["id"].map(excel)).to_csv(path, index=False, quoting=csv.QUOTE_ALL)


def by_hand(frame, path):
    """Write two columns, one with the code, in another order, with blank lines between."""
    lines = [
        f"{code},{label}" for code, label in zip(frame["row_code"], frame[HEADER], strict=True)
    ]
    Path(path).write_text("row_code,label\n\n" + "\n\n".join(reversed(lines)) + "\n\n\n")


@pytest.mark.parametrize("write", [as_excel, as_libreoffice, by_hand])
def test_a_file_that_a_spreadsheet_saved_is_recognised(write):
    frame, truth = answered(), truth_of()
    write(frame, "job/answers-1.csv")
    done("next", "job")
    assert recorded() == {key: truth[key] for key in frame["id"]}


def test_keys_that_a_spreadsheet_changed_are_refused_where_codes_are_missing():
    """0007 became 7, which is another row."""
    frame = answered()
    changed = frame.assign(id=frame["id"].map(excel)).drop(columns="row_code")
    changed.to_csv("job/answers-1.csv", index=False)
    refused("job/answers-1.csv is refused", "keep the column row_code")
    key = next(key for key in frame["id"] if key.startswith("0") and f"{int(key)}" not in
               set(frame["id"]))  # fmt: skip
    changed[changed["id"] == f"{int(key)}"].to_csv("job/answers-1.csv", index=False)
    refused(f"row '{int(key)}' in line 2", f"a spreadsheet may have made it of '{key}'")


def test_a_key_in_doubt_is_refused():
    """Both 7 and 0007 were sent, and a reviewer answered one of them: nobody knows which."""
    sent = set(read("job/ask-1.csv")["id"])
    short = next(key for key in sent if key.isdigit() and f"{key:>06}" in sent - {key})
    frame = answered()
    frame.to_csv("job/answers-1.anna.csv", index=False)
    part = frame[frame["id"] == short].drop(columns="row_code")
    part.to_csv("job/answers-1.ben.csv", index=False)
    refused("answers-1.ben.csv is refused", f"row {short!r} in line 2", "a spreadsheet may have")
    both = frame[frame["id"].isin([short, f"{short:>06}"])].drop(columns="row_code")
    both.to_csv("job/answers-1.ben.csv", index=False)
    done("next", "job")


def test_what_became_of_a_key_is_known():
    keys = ["1234567890123456789", "1234567890123450000", "12", "012", "3-4", "=1", "1E5", "x"]
    rows = SentRows(keys, row_codes(b"secret", range(len(keys))))
    codes = row_codes(b"secret", range(len(keys)))
    assert [rows.find(key, "") for key in keys] == [*range(8)]
    assert rows.find("'=1", "") == 5
    for text, likely in (("1.23457E+18", {0, 1}), ("1234567890123460000", {0}), ("12.0", {2, 3}),
                         ("100000", {6}), ("1,00E+05", {6}), ("1234567890123450000", {0, 1}),
                         ("12", {2, 3}), ("x", {7}), ("13", set())):  # fmt: skip
        assert rows.candidates(text) == likely, text
    assert rows.find("03.04.2026", codes[4]) == 4
    assert rows.find("", codes[4]) == 4
    assert rows.find("12", codes[3]) == 3
    assert "is that of row 'x'" in rows.find("3-4", codes[7])
    assert "was not sent" in rows.find("12", "bcdfghjkmnpqrs")
    assert "made it of '12' or '012'" in rows.find("12.0", "")
    assert rows.find("13", "") == "which was not sent"


def test_two_columns_of_answers_are_refused():
    frame = answered()
    frame.assign(label="").to_csv("job/answers-1.csv", index=False)
    done("next", "job")
    frame = answered("ask-2.csv")
    frame.assign(label=frame[HEADER]).to_csv("job/answers-2.csv", index=False)
    refused("has answers in 'label (No / Yes)', 'label'")


def test_a_workbook_is_refused_by_name():
    Path("job/answers-1.anna.xlsx").write_bytes(b"PK\x03\x04")
    answered().to_csv("job/answers-1.ben.csv", index=False)
    refused("answers-1.anna.xlsx is a spreadsheet", "save the sheet as CSV")


# Several reviewers -------------------------------------------------------------------------------


def three_reviewers(n_disputed=40):
    """Write three files, two of them of a part, with contradictions; give where these are."""
    frame = answered()
    rng = np.random.default_rng(1)
    disputed = rng.choice(np.arange(20, len(frame) // 2), n_disputed, replace=False)
    as_excel(flipped(frame, disputed[: n_disputed // 2]), "job/answers-1.anna.csv")
    half = frame.assign(**{HEADER: frame[HEADER].where(frame.index < len(frame) // 2, "")})
    as_libreoffice(half, "job/answers-1.Ben.csv")
    by_hand(flipped(frame, disputed[n_disputed // 2 :])[20:], "job/answers-1.csv")
    return frame, set(frame["id"].to_numpy()[disputed])


def test_three_files_with_40_contradictions_are_merged_when_these_are_settled():
    frame, disputed = three_reviewers()
    called = done("next", "job")
    assert recorded() == {}, "nothing counts before all is settled"
    settle = read("job/settle-1.csv")
    assert settle.columns.tolist() == ["id", "text", "size", "row_code", HEADER]
    assert len(settle) == 40
    assert set(settle["id"]) == disputed
    assert set(settle[HEADER]) == {""}, "blind"
    order = [frame["id"].tolist().index(key) for key in settle["id"]]
    assert order != sorted(order)
    assert "Written: job/settle-1.csv, with 40 of 1,000 rows to be answered (answered" in called.err
    assert "Put the answers into job/settled-1.csv" in called.err
    assert "at least two of 3 reviewers" in called.err
    assert "Waiting: job/settle-1.csv" in done("next", "job").err
    assert recorded() == {}
    truth = truth_of()
    answered("settle-1.csv").to_csv("job/settled-1.csv", index=False)
    done("next", "job")
    assert recorded() == {key: truth[key] for key in frame["id"]}
    answered("ask-2.csv").to_csv("job/answers-2.csv", index=False)
    shown = done("next", "job").out
    evidence = BatchLabels.load("job/evidence.json")
    n_shared = len(frame)
    assert f"of {n_shared:,} rows answered by at least two of 3 reviewers" in evidence.notes[0]
    assert len(evidence.notes) == 4
    for text in evidence.notes:
        assert text.startswith("Round 1 (checks): ")
        assert text in shown
    labels = read("job/labels.csv").set_index("id")["label"]
    assert all(labels[key] == truth[key] for key in frame["id"])


def test_a_settled_answer_may_be_one_that_nobody_gave():
    """It is the final model's, like every other one, and may also be none."""
    three_reviewers(4)
    done("next", "job")
    settled = answered("settle-1.csv")
    keys = settled["id"].tolist()
    settled[HEADER] = ["Perhaps", "none", "Yes", "No"]
    settled.to_csv("job/settled-1.csv", index=False)
    refused("settled-1.csv is refused", "unknown label 'Perhaps'", "unknown label 'none'")
    assert recorded() == {}
    done("next", "job", "--new-label", "Perhaps", "--failed", "none")
    said = recorded()
    assert [said[key] for key in keys] == ["Perhaps", None, "Yes", "No"]
    assert read("job/ask-2.csv").columns[-1] == "label (No / Perhaps / Yes)"


def test_no_answer_against_an_answer_is_a_contradiction():
    frame = answered()
    frame.to_csv("job/answers-1.anna.csv", index=False)
    labels = frame[HEADER].to_numpy(dtype=object)
    labels[3] = "none"
    frame.assign(**{HEADER: labels}).to_csv("job/answers-1.ben.csv", index=False)
    done("next", "job", "--failed", "none")
    assert read("job/settle-1.csv")["id"].tolist() == [frame["id"][3]]


def test_rows_that_nobody_answered_are_named():
    frame = answered()
    frame[:-7].to_csv("job/answers-1.anna.csv", index=False)
    frame[10:-5].to_csv("job/answers-1.ben.csv", index=False)
    refused("answers-1.anna.csv and job/answers-1.ben.csv are refused", "no answer to row '",
            *map(repr, frame["id"][-5:]))  # fmt: skip
    assert recorded() == {}
    frame[-5:].to_csv("job/answers-1.carl.csv", index=False)
    done("next", "job")
    assert len(recorded()) == len(frame)
    assert not Path("job/settle-1.csv").exists()


def test_one_bad_file_of_several_is_refused_by_line():
    frame = answered()
    frame.to_csv("job/answers-1.anna.csv", index=False)
    flipped(frame, [5]).replace({HEADER: {"Yes": "yes"}}).to_csv("job/answers-1.ben.csv")
    refused("job/answers-1.ben.csv is refused", "unknown label 'yes'; did you mean 'Yes' in line")
    assert recorded() == {}
    assert not Path("job/settle-1.csv").exists()


def test_a_reviewer_has_one_file_and_rows_are_settled_in_one():
    frame = answered()
    frame.to_csv("job/answers-1.Anna.csv", index=False)
    frame.to_csv("job/answers-1.anna.csv", index=False)
    refused("are both from the reviewer anna", "keep one")
    flipped(frame, [0]).to_csv("job/answers-1.Anna.csv", index=False)
    shutil.move("job/answers-1.anna.csv", "job/answers-1.ben.CSV")
    done("next", "job")
    settled = answered("settle-1.csv")
    for name in ("anna", "ben"):
        settled.to_csv(f"job/settled-1.{name}.csv", index=False)
    refused("both settle the same rows")
    Path("job/settled-1.ben.csv").unlink()
    done("next", "job")
    assert len(recorded()) == len(frame)


@pytest.mark.parametrize("name", ["answers-1 (1).csv", "answers-1-ben.csv", "Answers-1_ben.CSV"])
def test_a_file_with_another_name_is_not_overlooked(name):
    frame = answered()
    frame.to_csv("job/answers-1.anna.csv", index=False)
    Path("job/answers-1.csv~").write_text("of an editor")
    Path("job/answers-11.csv").write_text("of another round")
    frame.to_csv(f"job/{name}", index=False)
    refused(f"job/{name} is not the name of a file of answers; call it answers-1.NAME.csv")
    assert recorded() == {}
    Path("job", name).unlink()
    done("next", "job")


def test_a_file_that_changed_or_came_after_rows_were_sent_to_be_settled_is_refused():
    frame, _ = three_reviewers()
    done("next", "job")
    anna = Path("job/answers-1.anna.csv").read_bytes()
    Path("job/answers-1.anna.csv").write_bytes(anna.replace(b"Yes", b"No"))
    answered("settle-1.csv").to_csv("job/settled-1.csv", index=False)
    refused("answers-1.anna.csv has changed since job/settle-1.csv was written", "Put it back")
    assert recorded() == {}
    Path("job/answers-1.anna.csv").write_bytes(anna)
    frame.to_csv("job/answers-1.carl.csv", index=False)
    refused("answers-1.carl.csv came after job/settle-1.csv was written", "Move it away")
    assert recorded() == {}
    Path("job/answers-1.carl.csv").unlink()
    done("next", "job")
    assert len(recorded()) == len(frame)


def test_a_file_that_changed_or_came_after_its_round_is_not_read():
    """The first answer to a row stays, and each such file is named."""
    frame = answered()
    frame.to_csv("job/answers-1.anna.csv", index=False)
    assert "is not read" not in done("next", "job").err
    before = recorded()
    flipped(frame, [1]).to_csv("job/answers-1.ben.csv", index=False)
    flipped(frame, [2]).to_csv("job/answers-1.anna.csv", index=False)
    frame[:3].to_csv("job/settled-1.csv", index=False)
    called = done("next", "job")
    assert "job/answers-1.ben.csv is not read: it came after" in called.err
    assert "job/settled-1.csv is not read: it came after" in called.err
    assert "job/answers-1.anna.csv has changed since it was read" in called.err
    assert recorded() == before


@pytest.mark.parametrize("name", ["settle-1.csv", "settled-1.csv"])
def test_files_of_rows_that_were_not_disputed_yet_are_in_the_way(name):
    Path("job", name).write_text("row_code,label\n")
    three_reviewers()
    refused(f"job/{name} is there already", "move it away")
    assert recorded() == {}
    Path("job", name).unlink()
    done("next", "job")


@pytest.mark.parametrize(
    "name", ["ask-1.csv", "answers-1.anna.csv", "settle-1.csv", "settled-1.x.csv"]
)
def test_files_of_another_job_are_in_the_way(name):
    shutil.rmtree("job")
    Path("job").mkdir()
    Path("job", name).write_text("mine")
    called = call("label", "begin", "rows.csv", *OWN, "--key", "id", "--out", "job")
    assert called.code == 2
    assert f"job/{name} is there, but not of this job" in called.err


class Ended(BaseException):
    """What stands for the end of a process."""


STEPS = {"set_note": JobStore, "record": JobStore, "_write": _label_job}


@pytest.mark.parametrize("before", [True, False])
def test_a_command_that_ends_at_any_step_is_repeated(monkeypatch, before):
    """Before or after each time that it writes something: the same rows, the same answers."""
    three_reviewers()
    shutil.copytree("job", "unharmed")

    def ended_at(step):
        count = 0

        def ending(real):
            def run(*args, **kwargs):
                nonlocal count
                count += 1
                if count == step and before:
                    raise Ended
                real(*args, **kwargs)
                if count == step:
                    raise Ended

            return run

        with monkeypatch.context() as patch:
            for name, place in STEPS.items():
                patch.setattr(place, name, ending(getattr(place, name)))
            try:
                done("next", "job")
            except Ended:
                return True
        return False

    n_steps = 0
    for sheet in (None, "settle-1.csv"):
        if sheet is not None:
            answered(sheet).to_csv("job/settled-1.csv", index=False)
        step = 1
        while ended_at(step):
            assert len(recorded()) in (0, len(read("job/ask-1.csv"))), "all or nothing"
            step += 1
        n_steps += step - 1
    assert n_steps >= 4
    done("next", "unharmed")
    shutil.copy("job/settled-1.csv", "unharmed/settled-1.csv")
    done("next", "unharmed")
    for name in ("settle-1.csv", "ask-2.csv"):
        assert Path("job", name).read_bytes() == Path("unharmed", name).read_bytes()


def test_a_file_that_changes_after_it_was_read_changes_nothing(monkeypatch):
    """A command ends between reading and recording, and the file is changed meanwhile."""
    frame = answered()
    truth = truth_of()
    frame.assign(**{HEADER: frame[HEADER].replace("Yes", "Perhaps")}).to_csv(
        "job/answers-1.csv", index=False
    )

    def ended(*_):
        raise Ended

    with monkeypatch.context() as patch:
        patch.setattr(JobStore, "record", ended)
        with pytest.raises(Ended):
            done("next", "job", "--new-label", "Perhaps")
    flipped(frame, [*range(10)]).to_csv("job/answers-1.csv", index=False)
    assert "answers-1.csv has changed since it was read" in done("next", "job").err
    names = {"Yes": "Perhaps", "No": "No"}
    assert recorded() == {key: names[truth[key]] for key in frame["id"]}


# Agreement ---------------------------------------------------------------------------------------


def test_kappa_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    for n_labels in (2, 3, 7):
        first = rng.integers(0, n_labels, 200)
        second = np.where(rng.random(200) < 0.7, first, rng.integers(0, n_labels, 200))
        expected = cohen_kappa_score(first, second)
        assert cohens_kappa(first.tolist(), second.tolist()) == pytest.approx(expected)
    assert cohens_kappa(["a", "a"], ["a", "a"]) is None
    assert cohens_kappa(["a", "b"], ["b", "a"]) == -1


def test_agreement_of_reviewers_who_share_few_rows():
    anna, ben, carl = {0: "a", 1: "a"}, {1: "a"}, {5: None}
    notes = agreement_notes({"anna": anna, "ben": ben, "carl": carl}, "Round 1")
    assert "of 1 rows answered by at least two of 3 reviewers, 1 were answered alike" in notes[0]
    assert "no kappa, as both gave one label only" in notes[1]
    assert notes[2].endswith("anna and carl answered no row both.")
    assert agreement_notes({"anna": anna}, "Round 1") == []
    alone = agreement_notes({"anna": anna, "carl": carl}, "Round 1")
    assert "of 0 rows answered by at least two" in alone[0]
