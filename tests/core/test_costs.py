"""Costs are functions of sets of sources: own prices, setups once, the slowest chain's latency."""

from __future__ import annotations

import copy
import csv
import pickle
from decimal import Decimal
from itertools import chain, combinations, pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emsco import Costs, Review, Source
from emsco.core.validation import resolve_costs
from emsco.exceptions import ColumnsError, CostsError

BLOOD = Costs(
    [
        Source("age", cost=1, latency=0.5),
        Source("chol", cost=5.17, setup="blood", latency=2),
        Source("fbs", cost=3.10, setup="blood", requires=["age"]),
    ],
    setups={"blood": 2.10},
    review=Review(25, latency=60, accuracy=0.98),
    unit="CAD",
)


def test_every_subset_of_turneys_cleveland_prices_comes_out_to_the_cent(data_folder):
    """Turney prices the first test of a group in full and the others at a discount."""
    with open(data_folder / "costs_heart_cleveland.csv", newline="") as file:
        tests = {row["feature"]: row for row in csv.DictReader(file)}
    setups = {
        row["group"]: float(Decimal(row["full_cost"]) - Decimal(row["discount_cost"]))
        for row in tests.values()
        if row["group"]
    }
    costs = Costs(
        [
            Source(name, cost=float(row["discount_cost"]), setup=row["group"] or None)
            for name, row in tests.items()
        ],
        setups=setups,
    )

    def published(subset):
        price, seen = Decimal(0), set()
        for name in subset:
            group = tests[name]["group"]
            price += Decimal(tests[name]["discount_cost" if group in seen else "full_cost"])
            if group:
                seen.add(group)
        return price

    subsets = chain.from_iterable(combinations(tests, size) for size in range(len(tests) + 1))
    checked = 0
    for subset in subsets:
        assert Decimal(repr(costs.of(subset))) == published(subset)
        checked += 1
    assert checked == 2**13
    assert costs.total == float(published(tests))


def test_a_setup_is_paid_once_at_the_first_of_its_sources():
    assert BLOOD.of(["chol"]) == 7.27
    assert BLOOD.of(["fbs"], paid=["chol"]) == 3.10
    assert BLOOD.of(["chol", "fbs"], paid=["chol"]) == 3.10
    assert BLOOD.of(["chol", "chol"]) == 7.27
    assert BLOOD.of([]) == 0
    assert BLOOD.total == 11.37


@given(st.lists(st.sampled_from(BLOOD.names)), st.lists(st.sampled_from(BLOOD.names)))
def test_buying_in_two_steps_costs_what_buying_at_once_costs(first, second):
    """The price of a set does not depend on the path that led to it."""
    at_once = BLOOD.of([*first, *second])
    assert BLOOD.of(first) + BLOOD.of(second, paid=first) == pytest.approx(at_once, abs=1e-12)


def test_a_stage_waits_for_its_slowest_source():
    assert BLOOD.latency_of(["age", "chol"]) == 2
    assert BLOOD.latency_of([]) == 0


def chained(latencies, requires):
    """Make costs whose sources s0, s1, ... take so long and require these others."""
    return Costs(
        [
            Source(f"s{i}", cost=1, latency=latency, requires=[f"s{j}" for j in needed])
            for i, (latency, needed) in enumerate(zip(latencies, requires, strict=True))
        ]
    )


def test_a_source_waits_for_those_it_requires_in_the_same_stage():
    costs = chained([2, 3, 4, 6], [[], [0], [1], []])
    assert costs.latency_of(costs.names) == 2 + 3 + 4
    assert costs.latency_of(["s2", "s1"]) == 3 + 4, "s0 was bought before"
    assert costs.latency_of(["s2", "s3"]) == 6, "nothing of the stage waits"
    assert costs.latency_of(["s2", "s0"]) == 4, "only through s1, which is there already"
    assert costs.latency_of(["s1", "s1", "s0"]) == 5
    assert chained([1, 5, 1], [[], [], [0, 1]]).latency_of(["s2", "s0", "s1"]) == 6


def test_a_long_chain_of_requirements_is_no_trouble():
    costs = chained([1.0] * 3000, [[], *([i] for i in range(2999))])
    assert costs.latency_of(costs.names) == 3000


def slowly(costs, stage):
    """Give the latency of a stage: of each ordered choice of its sources that is a chain."""
    by_name = {source.name: source for source in costs.sources}
    chains = (
        order
        for size in range(1, len(stage) + 1)
        for order in permutations(stage, size)
        if all(a in by_name[b].requires for a, b in pairwise(order))
    )
    return max((sum(by_name[name].latency for name in order) for order in chains), default=0)


@st.composite
def waiting(draw):
    """Draw costs without circles, their sources in any order, and a stage."""
    count = draw(st.integers(1, 6))
    rank = draw(st.permutations(range(count)))
    requires = [
        [j for j in range(count) if rank[j] < rank[i] and draw(st.booleans())] for i in range(count)
    ]
    latencies = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    costs = chained(latencies, requires)
    return costs, draw(st.lists(st.sampled_from(costs.names), unique=True))


@given(waiting())
def test_the_latency_of_a_stage_is_that_of_its_slowest_chain(drawn):
    costs, stage = drawn
    assert costs.latency_of(stage) == slowly(costs, stage)


@given(waiting())
def test_no_stage_waits_longer_than_one_source_after_the_other_nor_less_than_the_slowest(drawn):
    costs, stage = drawn
    latencies = [source.latency for source in costs.sources if source.name in stage]
    assert max(latencies, default=0) <= costs.latency_of(stage) <= sum(latencies)


def test_requirements_left_out_are_listed():
    assert BLOOD.unmet(["fbs", "chol"]) == (("fbs", "age"),)
    assert BLOOD.unmet(["fbs", "age"]) == ()


def test_a_source_yields_its_features_by_default_the_one_of_its_name():
    costs = Costs([Source("page", features=["title", "links"], cost=30), Source("url", cost=1)])
    assert costs.columns("page") == ("title", "links")
    assert costs.columns("url") == ("url",)


def test_zero_prices_are_allowed():
    assert Costs.per_feature({"a": 0, "b": 0}).total == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Source("a", cost=-1), "cost of source 'a' must be a number >= 0, got -1"),
        (lambda: Source("a", cost=None), "cost of source 'a' must be a number >= 0, got None"),
        (lambda: Source("a", cost=float("nan")), "must be a number >= 0, got nan"),
        (lambda: Source("a", cost=float("inf")), "must be a number >= 0, got inf"),
        (lambda: Source("a", cost="3"), "must be a number >= 0, got '3'"),
        (lambda: Source("a", cost=1, latency=-2), "latency of source 'a'"),
        (lambda: Source("", cost=1), "name must be text and not empty"),
        (lambda: Source("a", cost=1, features=[]), "at least one feature"),
        (lambda: Review(-1), "cost of review"),
        (lambda: Review(1, accuracy=1.5), "at most 1, got 1.5"),
        (lambda: Costs([]), "at least one source"),
        (lambda: Costs(["age"]), "must be Source objects, got 'age'"),
        (lambda: Costs([Source("a", cost=1)] * 2), "Every source must be named only once"),
        (
            lambda: Costs([Source("a", cost=1), Source("b", cost=1, features=["a"])]),
            "Every feature must be named only once; repeated: 'a'",
        ),
        (
            lambda: Costs([Source("age", cost=1), Source("b", cost=1, requires=["agee"])]),
            "requires 'agee', which is not a source; did you mean 'age'",
        ),
        (lambda: Costs([Source("a", cost=1, setup="blood")]), "'blood', which has no price"),
        (lambda: Costs([Source("a", cost=1)], setups={"blood": 1}), "No source names the setup"),
        (lambda: Costs([Source("a", cost=1, setup="s")], setups={"s": -1}), "cost of setup 's'"),
        (lambda: chained([1], [[0]]), "'s0' would wait for ever"),
        (
            lambda: chained([1, 1, 1], [[], [2], [1]]),
            "'s[12]', 's[12]' would wait for ever; remove",
        ),
        (lambda: BLOOD.of(["chole"]), "'chole' is not a source; did you mean 'chol'"),
    ],
)
def test_wrong_costs_cannot_be_built(make, message):
    with pytest.raises(CostsError, match=message):
        make()


def test_prices_match_features_by_name_or_by_position():
    assert Costs.per_feature([1, 20]).names == ("x0", "x1")
    assert Costs.per_feature([1, 20], ["a", "b"]).of(["b"]) == 20
    assert Costs.per_feature({"b": 20, "a": 1}, ["a", "b"]).names == ("a", "b")
    with pytest.raises(ColumnsError, match="3 prices for 2 features"):
        Costs.per_feature([1, 2, 3], ["a", "b"])
    with pytest.raises(ColumnsError, match="missing: 'b'; not a feature: 'c'"):
        Costs.per_feature({"a": 1, "c": 2}, ["a", "b"])


def test_costs_own_columns_of_x_and_name_those_left_out():
    assert resolve_costs(None, ["a", "b"]).total == 2
    assert resolve_costs(BLOOD, ["chol", "age", "fbs"]) is BLOOD
    with pytest.raises(ColumnsError, match="not in X: 'fbs'; did you mean 'fbss'"):
        resolve_costs(BLOOD, ["age", "chol", "fbss"])
    with pytest.warns(UserWarning, match="left out, because `costs` has no price for them: 'sex'"):
        assert resolve_costs(BLOOD, ["age", "chol", "fbs", "sex"]) is BLOOD
    with pytest.warns(UserWarning, match="no price for them: 'id'. Give a column the price 0 if"):
        assert resolve_costs({"b": 2, "a": 1}, ["id", "a", "b"]).names == ("a", "b")
    with pytest.raises(ColumnsError, match="not in X: 'c'"):
        resolve_costs({"a": 1, "c": 2}, ["a", "b"])
    with pytest.raises(ColumnsError, match="no price for any column of X: 'a', 'b'"):
        resolve_costs({}, ["a", "b"])


def test_costs_written_to_toml_are_read_back_equal(tmp_path):
    path = tmp_path / "costs.toml"
    BLOOD.to_toml(path)
    assert Costs.from_toml(path) == BLOOD
    assert resolve_costs(path, ["age", "chol", "fbs"]) == BLOOD
    assert 'chol = { cost = 5.17, latency = 2.0, setup = "blood" }' in path.read_text()


@given(
    name=st.text(min_size=1),
    features=st.lists(st.text(), min_size=1, unique=True),
    cost=st.floats(0, 1e12),
    unit=st.text(),
    words=st.text(),
)
def test_any_text_survives_toml(tmp_path_factory, name, features, cost, unit, words):
    """Names are the users' own: quotes, line breaks, emoji and control characters included."""
    try:
        "".join([name, unit, words, *features]).encode()
    except UnicodeEncodeError:  # a lone surrogate is no text
        return
    source = Source(name, features=features, cost=cost, setup=name, description=words)
    costs = Costs([source], setups={name: cost}, descriptions={name: words}, unit=unit)
    path = tmp_path_factory.getbasetemp() / "any.toml"
    costs.to_toml(path)
    assert Costs.from_toml(path) == costs


def test_descriptions_are_part_of_costs_and_change_no_price(tmp_path):
    plain = Costs([Source("sugar", cost=3, setup="draw")], setups={"draw": 2})
    source = Source("sugar", cost=3, setup="draw", description="sugar in the blood")
    told = Costs([source], setups={"draw": 2}, descriptions={"draw": "a blood sample"})
    assert told != plain
    assert told.of(["sugar"]) == plain.of(["sugar"])
    assert eval(repr(told)) == told
    assert pickle.loads(pickle.dumps(told)) == told
    assert "description" not in repr(plain) + plain.to_toml()
    path = tmp_path / "costs.toml"
    path.write_text(
        "[sources]\n"
        'sugar = { cost = 3, setup = "draw", description = "sugar in the blood" }\n'
        "[setups]\ndraw = 2\n"
        '[descriptions]\ndraw = "a blood sample"\n'
    )
    assert Costs.from_toml(path) == told
    with pytest.raises(AttributeError):
        told.descriptions = {}
    with pytest.raises(TypeError):
        told.descriptions["draw"] = "another"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[descriptions]\nage = 'in years'\n[sources]\nage = 1", "must name setups, got 'age'"),
        ("[sources]\nage = { cost = 1, description = 3 }", "of source 'age' must be text, got 3"),
        (
            "[sources]\nage = { cost = 1, setup = 'call' }\n[setups]\ncall = 1\n"
            "[descriptions]\ncall = 2",
            "of setup 'call' must be text, got 2",
        ),
        ("sources = [", "not valid TOML"),
        ("[setups]\nblood = 1", "does not describe costs: 'sources'"),
        ("[sources]\na = -3", "cost of source 'a' must be a number >= 0"),
        ("[sources]\nTSH = { price = 22.78 }", "The source 'TSH' may hold .*'cost'.* not 'price'"),
        ("[sources]\nTSH = { csot = 2 }", "not 'csot'; did you mean 'cost'?"),
        ("[sources]\nage = 1\n[review]\nprice = 2", r"\[review\] may hold .*'cost'.* not 'price'"),
        ("[source]\nage = 1", "not 'source'; did you mean 'sources'?"),
        ("[sources]\nblood test = 3", "quote names with a space"),
    ],
)
def test_a_wrong_toml_file_is_refused_by_name(tmp_path, text, message):
    path = tmp_path / "costs.toml"
    path.write_text(text)
    with pytest.raises(CostsError, match=message):
        Costs.from_toml(path)


def test_costs_print_as_they_are_written():
    assert repr(BLOOD.sources[2]) == "Source('fbs', cost=3.1, setup='blood', requires=('age',))"
    assert eval(repr(BLOOD)) == BLOOD


def test_costs_are_frozen_hashable_and_picklable():
    with pytest.raises(AttributeError):
        BLOOD.unit = "EUR"
    with pytest.raises((AttributeError, TypeError)):
        BLOOD.setups["blood"] = 0
    for other in (copy.deepcopy(BLOOD), pickle.loads(pickle.dumps(BLOOD))):
        assert other == BLOOD
        assert hash(other) == hash(BLOOD)


def test_a_name_in_another_case_is_asked_back():
    with pytest.raises(ColumnsError, match="did you mean 'tsh'"):
        resolve_costs(Costs.per_feature({"TSH": 1}), ["tsh"])


# Types, and price lists --------------------------------------------------------------------------


def test_types_and_skipped_columns_survive_a_file(tmp_path):
    costs = Costs(
        [
            Source("form", features=("town", "born"), cost=0, type={"born": "date"}),
            Source("postcode", cost=1, type="text"),
            Source("lab", cost=5),
        ],
        skipped=("id", "a note"),
    )
    costs.to_toml(tmp_path / "costs.toml")
    assert Costs.from_toml(tmp_path / "costs.toml") == costs
    assert dict(costs.types) == {"born": "date", "postcode": "text"}
    assert eval(repr(costs)) == costs
    assert hash(costs) == hash(Costs.from_toml(tmp_path / "costs.toml"))


def test_columns_of_the_type_skip_are_left_out_of_a_file(tmp_path):
    path = tmp_path / "costs.toml"
    path.write_text(
        '[sources]\nid = { type = "skip" }\nday = { cost = 3, type = "skip" }\nage = 1\n'
        'form = { cost = 2, features = ["a", "b", "c"], type = { a = "skip", b = "text" } }\n'
    )
    costs = Costs.from_toml(path)
    assert costs.names == ("age", "form")
    assert costs.columns("form") == ("b", "c")
    assert costs.skipped == ("id", "day", "a")
    assert costs.total == 3


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('age = { cost = 1, type = "texts" }', "did you mean 'text'?"),
        ("age = { cost = 1, type = 3 }", "must be text, got 3"),
        ('age = { cost = 1, type = { agee = "text" } }', "did you mean 'age'?"),
        ('age = { cost = 1, typ = "text" }', "but not 'typ'"),
        ('age = { cost = 1, kind = "texts" }', "must be 'text', got 'texts'"),
        ('age = { cost = 1, kind = "text", type = "date" }', "leave `kind` or `type` out"),
    ],
)
def test_a_type_that_is_none_is_refused(tmp_path, entry, message):
    path = tmp_path / "costs.toml"
    path.write_text(f"[sources]\n{entry}\n")
    with pytest.raises(CostsError) as error:
        Costs.from_toml(path)
    assert message in str(error.value)


def test_skip_is_for_files():
    with pytest.raises(CostsError, match="`skipped` of `Costs`"):
        Source("id", cost=1, type="skip")
    with pytest.raises(CostsError, match="repeated: 'age'"):
        Costs([Source("age", cost=1)], skipped=["age"])


@pytest.mark.parametrize(
    "text",
    [
        "column,price\nage,1.5\nblood test,20\n",
        "age;1,5\r\nblood test;20\r\n",
        '\ufeffage,1.5\n\n"blood test",20',
        "column\tcost\nage\t1.5\nblood test\t20\n",
    ],
)
def test_a_price_list_is_read_from_csv(tmp_path, text):
    path = tmp_path / "prices.CSV"
    path.write_text(text, encoding="utf-8")
    expected = Costs.per_feature({"age": 1.5, "blood test": 20})
    assert Costs.from_csv(path) == expected
    assert resolve_costs(path, ["age", "blood test"]) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("column,price\nage,cheap\n", "got 'age,cheap'"),
        ("column,price,unit\nage,1,EUR\n", "a column and its price on every line"),
        ("age,1\nage,2\n", "two prices for 'age'"),
        ("column,price\n", "has no prices"),
        ("age,-1\n", "must be a number >= 0"),
    ],
)
def test_a_list_that_is_no_price_list_is_refused(tmp_path, text, message):
    path = tmp_path / "prices.csv"
    path.write_text(text)
    with pytest.raises(CostsError) as error:
        Costs.from_csv(path)
    assert message in str(error.value)
