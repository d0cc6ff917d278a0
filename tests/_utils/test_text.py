"""Tables and TOML values are written as people read them."""

from __future__ import annotations

from emsco._utils.text_table import text_table
from emsco._utils.toml_writer import toml_value


def test_numbers_of_a_table_stand_right_and_rows_left_out_are_dots():
    table = text_table(["label", "cost"], [["well", 12.5], None, ["sick", 3.0]])
    assert table.splitlines() == ["label  cost", "well   12.5", "...     ...", "sick      3"]


def test_a_mapping_is_an_inline_table_of_toml():
    written = toml_value({"cost": 5.17, "requires": ("a b", "c")})
    assert written == '{ cost = 5.17, requires = ["a b", "c"] }'
