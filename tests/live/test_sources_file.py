"""The file of sources: what is read is written back, what is wrong is refused by name."""

from __future__ import annotations

import random
import string
from dataclasses import fields

import pytest

from emsco import Costs, Source
from emsco.exceptions import SourcesError
from emsco.live import (
    CallableSource,
    HTTPSource,
    KnownSource,
    RedisSource,
    Sources,
    SQLSource,
)
from emsco.live.source import LiveSource
from emsco.live.sources import KINDS

FILE = """\
[page]
kind = "redis"
url_env = "REDIS_URL"
key = "page:{key}"
fields = { length = "len", links = "n_links" }
key_field = "id"
time_field = "seen_at"
max_age = "7d"

[whois]
kind = "http"
url = "https://whois.example/v1/{domain}"
headers_env = { Authorization = "WHOIS_TOKEN" }
features = { domain_age = "/age_days" }
timeout = 0.4
paid = true
max_spend = 200

[registry]
kind = "sql"
url_env = "REGISTRY_DSN"
query = "SELECT id, dns_record FROM dns WHERE id IN :keys"
key_field = "id"
"""


def read(text, folder):
    """Read a text as a file of sources."""
    path = folder / "sources.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Sources.from_toml(path)


def test_a_source_that_callers_send_is_in_the_file_too(tmp_path):
    sources = read('[url]\nkind = "known"\n', tmp_path)
    assert sources["url"] == KnownSource()
    assert read(sources.to_toml(), tmp_path) == sources


def test_a_file_says_how_each_source_is_fetched(tmp_path):
    """With durations as texts, and everything else as by default."""
    sources = read(FILE, tmp_path)
    assert [*sources] == ["page", "whois", "registry"]
    assert sources["page"] == RedisSource(
        url_env="REDIS_URL", key="page:{key}", fields={"length": "len", "links": "n_links"},
        key_field="id", time_field="seen_at", max_age=7 * 86400,
    )  # fmt: skip
    assert sources["whois"].needs == {"domain"}
    assert (sources["whois"].timeout, sources["whois"].most_retries) == (0.4, 0)
    assert (sources["registry"].timeout, sources["registry"].most_retries) == (1.0, 1)
    assert read(sources.to_toml(), tmp_path) == sources


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('kind = "redis"', 'kind = "reddis"', "[page] must have kind = 'redis' or 'sql' or 'http'"),
        ('kind = "sql"\n', "", "[registry] must have kind"),
        ("key_field", "keyfield", "'keyfield'; did you mean 'key_field'?"),
        ('key = "page:{key}"\n', "", "[page] must have `key`"),
        ('"page:{key}"', '"page"', "`key` must contain {key}"),
        ('"page:{key}"', '"page:{key.real}"', "only names in braces, got 'key.real'"),
        ('"page:{key}"', '"page:{key}}"', "an unmatched brace"),
        ('url_env = "REDIS_URL"', 'url = "redis://:secret@h"', "must not contain `url`"),
        ('headers_env = { Authorization = "WHOIS_TOKEN" }', 'headers = { A = "secret" }',
         "must not contain `headers`"),
        ("https://whois.example", "https://u:secret@whois.example", "a user or password"),
        ("https://whois.example/v1/{domain}", "https://{domain}/v1", "must have a fixed host"),
        ("https://whois.example", "file:///etc", "must start with https://"),
        ("/{domain}", "", "`url` must contain {key}"),
        ('"/age_days"', '"age_days"', "must be a JSON pointer"),
        ('"7d"', '"7 weeks"', "`max_age` must be a number of seconds, or a string"),
        ('time_field = "seen_at"\n', "", "`max_age` needs `time_field`"),
        ("timeout = 0.4", "timeout = 0", "`timeout` must be above 0"),
        ("timeout = 0.4", "timeout = nan", "`timeout` must be a number"),
        ("timeout = 0.4", "retries = 2", "are not repeated: omit `retries`"),
        ("timeout = 0.4", "concurrency = 1.5", "`concurrency` must be a whole number"),
        ("paid = true", 'paid = "yes"', "`paid` must be true or false"),
        ("max_spend = 200", "max_spend = -1", "`max_spend` must be at least 0"),
        ("IN :keys", "= 'a'", "must contain `IN :keys`"),
        ("[registry]", "registry = 1\n[other]", "[registry] must be a table"),
        ("[page]", "[page", "is not valid TOML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_by_name(tmp_path, old, new, told):
    """Unknown names, values that cannot be, and secrets."""
    text = FILE.replace(old, new, 1)
    if new.startswith("registry = 1"):
        text = "registry = 1\n" + FILE.replace("[registry]", "[other]")
    with pytest.raises(SourcesError) as refused:
        read(text, tmp_path)
    assert told in str(refused.value)
    assert "secret" not in str(refused.value)


def test_mutations_are_refused_or_written_back(tmp_path):
    """Whatever somebody mistypes: an error of our own, or a file that is read as it was written."""
    rng = random.Random(0)
    signs = string.printable + "äß\0\x7f{}[]\"'=:"
    read_back = 0
    for _ in range(500):
        text = FILE
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(text))
            cut = rng.randint(0, 3)
            text = text[:at] + "".join(rng.choices(signs, k=rng.randint(0, 2))) + text[at + cut :]
        try:
            sources = read(text, tmp_path)
        except SourcesError:
            continue
        assert read(sources.to_toml(), tmp_path) == sources
        read_back += 1
    assert 50 < read_back < 450


def test_sources_are_those_of_the_costs():
    """One too many and one too few are named."""
    costs = Costs([Source("page", cost=1), Source("whois", cost=5)])
    page = RedisSource(url_env="A", key="{key}")
    with pytest.raises(SourcesError, match="no source 'pagee'; did you mean 'page'"):
        Sources({"pagee": page}).check(costs)
    with pytest.raises(SourcesError, match="No live source is configured for 'whois'"):
        Sources({"page": page}).check(costs)
    with pytest.raises(SourcesError, match="'page' must be a live source"):
        Sources({"page": "redis"})


def test_what_no_file_can_hold_is_not_written():
    """Functions, and secrets that were given in Python; neither is shown."""
    with pytest.raises(SourcesError, match="a Python function, which cannot be written to a file"):
        Sources({"a": CallableSource(function=print)}).to_toml()
    secret = [
        RedisSource(url="redis://:hidden@h", key="{key}"),
        SQLSource(url="postgresql+asyncpg://u:hidden@h/d", query="IN :keys", key_field="id"),
        HTTPSource(url="https://h/{key}", headers={"Authorization": "hidden"}),
    ]
    for source in secret:
        assert "hidden" not in repr(Sources({"a": source}))
        with pytest.raises(SourcesError, match="must not be written to a file; use `") as refused:
            Sources({"a": source}).to_toml()
        assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_says_what_it_holds_and_is_documented(kind):
    """A secret with the field to use in a file instead."""
    named = {one.name: one for one in fields(KINDS[kind])}
    text = f"{LiveSource.__doc__}{KINDS[kind].__doc__}"
    for name, one in named.items():
        assert f"    {name} : " in text or f"{name}, " in text or f", {name} : " in text, name
        if one.metadata["value"] == "secret":
            assert one.metadata["variable"] in named
            about = text.partition(f"    {name} : ")[2].partition(" : ")[0]
            assert "only possible in Python, not in a file" in about


def test_an_address_is_read_from_the_environment(monkeypatch):
    """When a source is opened, and not before."""
    source = RedisSource(url_env="EMSCO_NO_SUCH", key="{key}")
    with pytest.raises(SourcesError, match="variable EMSCO_NO_SUCH is not set"):
        source.open(["a"])
    with pytest.raises(SourcesError, match="exactly one of `url` and `url_env`"):
        RedisSource(key="{key}").open(["a"])
    monkeypatch.setenv("EMSCO_NO_SUCH", "redis://127.0.0.1:1")
    assert source.open(["a"])
    with pytest.raises(SourcesError, match="'b', which is not a feature of the source"):
        RedisSource(url="redis://h", key="{key}", fields={"b": "c"}).open(["a"])


def test_an_address_that_is_none_is_refused_and_not_shown():
    """The libraries' own errors would be bare, and could show a password."""
    for url in ("https://who]is/{key}", "https://h:port/{key}"):
        with pytest.raises(SourcesError, match="`url` is not a valid URL"):
            HTTPSource(url=url)
    for url in ("sqlite:///hidden", "redis://:hidden@h/0?db=x"):
        with pytest.raises(SourcesError, match="The Redis URL cannot be used") as refused:
            RedisSource(url=url, key="{key}").open(["a"])
        assert "hidden" not in str(refused.value)
